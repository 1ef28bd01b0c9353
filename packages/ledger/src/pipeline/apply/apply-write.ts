import { type Refusal, refuse } from '../../refusal.ts';
import type { Operation } from '../../rules/operation.ts';
import type { WriteRequest } from '../../rules/request.ts';
import { transactionId } from '../../rules/transaction-id.ts';
import { KEY_EXPIRED, mayBeForgotten } from '../first-sent.ts';
import type { Machine } from '../machine.ts';
import { type Effect, effectsText, type Outcome } from '../outcome.ts';
import { UNKNOWN_ORGANIZATION, UNKNOWN_VAULT } from './apply-creation.ts';
import type { ClientRow } from './client-row.ts';
import { aliveAt, type EntityRow, findUnmet } from './entity-row.ts';
import { post } from './post.ts';
import { addReceipt, findReceipt, printOf, type Receipt } from './receipt.ts';
import { clientKey, entityKey, organizationKey, relationshipKey, vaultKey } from './row-keys.ts';
import { transactionText } from './transaction-text.ts';

const MAX_SEQUENCE = 2n ** 64n - 1n;

/** A sequenced write: scope, key, sequence and conditions are checked, then all of it happens or nothing. */
export function applyWrite(
  machine: Machine,
  request: WriteRequest,
  requestText: string,
  texts: string[],
): Outcome {
  const { rows, height, time } = machine;
  const unknown = findUnknownScope(machine, request);
  if (unknown !== undefined) return { did: 'refuse', refusal: unknown };
  const name = clientKey(request.organization, request.vault, request.client);
  const client = rows.read<ClientRow>(name);
  const last = BigInt(client?.sequence ?? 0);
  const wrong =
    findRepeat(machine, name, client, request) ??
    (mayBeForgotten(machine, 'writes', request.first_sent) ? KEY_EXPIRED : findGap(request, last));
  if (wrong !== undefined) return { did: 'refuse', refusal: wrong };

  const sequence = last + 1n;
  const position = texts.length;
  const mark = machine.mark();
  const effects: Effect[] = [];
  for (let at = 0; at < request.operations.length; at += 1) {
    const operation = request.operations[at] as Operation;
    const refusal = applyOperation(machine, request, operation, { position, at, effects });
    if (refusal === undefined) continue;
    machine.undoTo(mark);
    return { did: 'refuse', refusal: { ...refusal, lastCommittedSequence: last } };
  }
  addReceipt(machine, name, request, { sequence, position });
  const row: ClientRow = { sequence: sequence.toString(), last_seen: time };
  rows.write(name, row);
  machine.lastSeen.set(name, time);
  noteExpiries(machine, request);
  const posted = effects.length > 0 ? `,"effects":${effectsText(effects)}` : '';
  const result = `"status":"committed","assigned_sequence":"${sequence}"${posted}`;
  texts.push(transactionText(height, position, requestText, result));
  return { did: 'write', position, sequence };
}

function findUnknownScope(
  { rows }: Machine,
  { organization, vault }: WriteRequest,
): Refusal | undefined {
  if (rows.read(organizationKey(organization)) === undefined) return UNKNOWN_ORGANIZATION;
  if (vault === null || rows.read(vaultKey(organization, vault)) !== undefined) return undefined;
  return UNKNOWN_VAULT;
}

/** A key that is known, or a sequence that is used up: it has happened, and never runs again. */
export function findRepeat(
  machine: Machine,
  name: string,
  client: ClientRow | undefined,
  request: Pick<WriteRequest, 'key' | 'hash' | 'sequence'>,
): Refusal | undefined {
  if (client === undefined) return undefined;
  const lastCommittedSequence = BigInt(client.sequence);
  const receipt = findReceipt(machine, name, request.key);
  if (receipt !== undefined) {
    if (receipt.print === printOf(request)) return alreadyCommitted(receipt, lastCommittedSequence);
    return refuse(
      'IDEMPOTENCY_KEY_REUSED',
      'This idempotency key was used for other operations. A new write needs a new key.',
      { lastCommittedSequence, assignedSequence: receipt.sequence },
    );
  }
  if (request.sequence === null || BigInt(request.sequence) > lastCommittedSequence) {
    return undefined;
  }
  const { client_ttl_ms } = machine.settings;
  return refuse(
    'ALREADY_COMMITTED',
    `The sequence is used up, and no write of the last ${client_ttl_ms / 1_000} seconds has this ` +
      'idempotency key. This request changed nothing.',
    { lastCommittedSequence, assignedSequence: BigInt(request.sequence) },
  );
}

function alreadyCommitted(receipt: Receipt, lastCommittedSequence: bigint): Refusal {
  return refuse('ALREADY_COMMITTED', 'This write is committed; it was not run again.', {
    lastCommittedSequence,
    assignedSequence: receipt.sequence,
    committedTxId: transactionId(receipt),
    committedBlockHeight: receipt.height,
  });
}

function findGap({ sequence }: WriteRequest, last: bigint): Refusal | undefined {
  if (last === MAX_SEQUENCE) {
    const message = 'The client has used every sequence. Go on with a new client id.';
    return refuse('SEQUENCE_EXHAUSTED', message, { lastCommittedSequence: last });
  }
  if (sequence === null || BigInt(sequence) === last + 1n) return undefined;
  const message = `The next sequence of this client is ${last + 1n}, not ${sequence}.`;
  return refuse('SEQUENCE_GAP', message, { lastCommittedSequence: last });
}

interface Place {
  readonly position: number;
  /** Which of the operations it is. */
  readonly at: number;
  readonly effects: Effect[];
}

function applyOperation(
  machine: Machine,
  { organization, vault }: WriteRequest,
  operation: Operation,
  { position, at, effects }: Place,
): Refusal | undefined {
  const { rows, height, time } = machine;
  switch (operation.op) {
    case 'set': {
      const { key, value, condition, expires_at = null } = operation;
      const name = entityKey(organization, vault, key);
      const entity = aliveAt(rows.read<EntityRow>(name), time);
      const unmet = condition && findUnmet(condition, key, entity);
      if (unmet !== undefined) return unmet;
      const version = (entity?.version ?? 0) + 1;
      rows.write(name, { value, version, expires_at } satisfies EntityRow);
      return undefined;
    }
    case 'delete': {
      const { key, condition } = operation;
      const name = entityKey(organization, vault, key);
      const unmet = condition && findUnmet(condition, key, aliveAt(rows.read(name), time));
      if (unmet !== undefined) return unmet;
      rows.remove(name);
      return undefined;
    }
    case 'relate':
    case 'unrelate': {
      const { resource, relation, subject } = operation;
      const name = relationshipKey(organization, vault, [resource, relation, subject]);
      if (operation.op === 'unrelate') rows.remove(name);
      else if (rows.read(name) === undefined) rows.write(name, { since: height });
      return undefined;
    }
    case 'post': {
      const result = post(machine, operation, { height, position, entry: at + 1 });
      if ('ok' in result) return result;
      effects.push(result);
      return undefined;
    }
  }
}

function noteExpiries(machine: Machine, { organization, vault, operations }: WriteRequest): void {
  for (const operation of operations) {
    if (operation.op !== 'set' && operation.op !== 'delete') continue;
    const name = entityKey(organization, vault, operation.key);
    const expiresAt = operation.op === 'set' ? operation.expires_at : undefined;
    if (expiresAt === undefined) machine.expiries.delete(name);
    else machine.expiries.set(name, expiresAt);
  }
}
