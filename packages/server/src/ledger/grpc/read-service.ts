import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import type { Entity, Ledger, Scope } from '@onceward/ledger';
import type { ReadService } from '@onceward/ledger/rpc';
import type { CredentialStore } from '../../credentials/credential-store.ts';
import { principalIn, unauthenticated } from './authenticate.ts';
import { blockMessage, headerMessage, pathMessage } from './block-message.ts';
import { rpcErrorOf } from './rpc-error.ts';

/** What one call may ask for: about a third of a megabyte of JSON. */
const MOST_HEADERS = 1_000;

export function readService(
  ledger: Ledger,
  credentials: CredentialStore,
): ServiceImpl<typeof ReadService> {
  const { reads } = ledger;
  const scopeOf = (request: { organization: string; vault?: string | undefined }): Scope => {
    const scope = { organization: request.organization, vault: request.vault ?? null };
    const fault = reads.findScopeFault(scope);
    if (fault !== undefined) throw rpcErrorOf(fault);
    return scope;
  };
  const tipHeight = () => BigInt(ledger.getTip().header.height);

  return {
    async read(request) {
      const scope = scopeOf(request);
      const { key, relationship } = request;
      if ((key === '') === (relationship === undefined)) {
        throw new ConnectError('Ask for a key or for a relationship.', Code.InvalidArgument);
      }
      if (relationship !== undefined) {
        const exists = reads.hasRelationship(scope, relationship);
        return { exists, blockHeight: tipHeight() };
      }
      return { ...entityMessage(reads.entity(scope, key)), blockHeight: tipHeight() };
    },

    async verifiedRead(request) {
      const scope = scopeOf(request);
      const { key } = request;
      if (key === '') throw new ConnectError('key must not be empty.', Code.InvalidArgument);
      const { entity, row, header, parts, proof } = reads.verifiedEntity(scope, key);
      const { accountCount, accounts, rows } = parts;
      const { bucketCount, bucket, path } = proof;
      return {
        ...entityMessage(entity),
        blockHeader: headerMessage(header),
        row,
        parts: { accountCount: BigInt(accountCount), accounts, rows },
        proof: { bucketCount: BigInt(bucketCount), bucket, path: pathMessage(path) },
      };
    },

    async getClientState(request) {
      const scope = scopeOf(request);
      const { clientId } = request;
      if (clientId === '') {
        throw new ConnectError('clientId must not be empty.', Code.InvalidArgument);
      }
      return { lastCommittedSequence: reads.clientState(scope, clientId) };
    },

    async getBlock({ height }, context) {
      const block = ledger.getBlock(Number(height));
      if (block === undefined) throw noBlock(ledger, height);
      return { block: blockMessage(block, principalIn(context)) };
    },

    async getHeaders({ fromHeight, count = MOST_HEADERS }) {
      const headers = await ledger.getHeaders(Number(fromHeight), Math.min(count, MOST_HEADERS));
      if (headers.length === 0 && count > 0) throw noBlock(ledger, fromHeight);
      return { headers: headers.map(headerMessage) };
    },

    async getTip(_request, context) {
      return {
        block: blockMessage(ledger.getTip(), principalIn(context)),
        firstHeight: BigInt(ledger.firstBlock),
      };
    },

    async *watchBlocks({ fromHeight }, context) {
      const from = Number(fromHeight ?? tipHeight() + 1n);
      const principal = principalIn(context);
      for await (const block of ledger.watchBlocks(from, context.signal)) {
        // Watching may last for days; a credential that is revoked meanwhile sees nothing more.
        if (!credentials.isValid(principal.apiKey)) throw unauthenticated();
        yield blockMessage(block, principal);
      }
    },
  };
}

function noBlock({ firstBlock }: Ledger, height: bigint): ConnectError {
  const message = `Block ${height} is not here; the oldest that is kept is ${firstBlock}.`;
  return rpcErrorOf({ ok: false, code: 'BLOCK_NOT_FOUND', message });
}

function entityMessage(entity: Entity | undefined) {
  if (entity === undefined) return { exists: false };
  const value = new Uint8Array(entity.value);
  return { exists: true, value, version: BigInt(entity.version) };
}
