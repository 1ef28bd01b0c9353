import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Block, BlockHeader } from '@onceward/ledger';
import type { BlockHeaderSchema, BlockSchema, ProofStepSchema } from '@onceward/ledger/rpc';
import type { Principal } from '../../credentials/credential.ts';

export function headerMessage(header: BlockHeader): MessageInitShape<typeof BlockHeaderSchema> {
  const { height, previous, transactions, count, state, at, term } = header;
  return {
    height: BigInt(height),
    previous,
    transactions,
    count,
    state,
    at: BigInt(at),
    term: BigInt(term),
  };
}

/** Transactions name the credential and the idempotency key of their senders, so a client gets none to see. */
export function blockMessage(
  { header, hash, texts }: Block,
  { role }: Principal,
): MessageInitShape<typeof BlockSchema> {
  return {
    header: headerMessage(header),
    hash,
    transactions: role === 'client' ? [] : [...texts],
  };
}

export function pathMessage(
  path: readonly (readonly string[])[],
): MessageInitShape<typeof ProofStepSchema>[] {
  return path.map((siblings) => ({ siblings: [...siblings] }));
}
