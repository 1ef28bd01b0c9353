import { fromBase64 } from '../base64.ts';
import {
  type AccountRecord,
  type LedgerHeader,
  type ProofPath,
  verifyAccount,
  verifyRow,
  verifyTransaction,
} from '../verify-proof.ts';
import { unproven } from './ledger-call-error.ts';

/** What an answer of the ledger proves, and whether that is what was asked. */
export type Json = Readonly<Record<string, unknown>>;

/** What a proof of a write must be about. */
export interface SentWrite {
  readonly organization: string;
  readonly vault?: string;
  readonly clientId: string;
  readonly idempotencyKey: string;
}

/** Proven is only what was sent: by this client, in this scope, under this key and sequence. */
export function assertWritten(success: Json, call: SentWrite): void {
  if (success.txProof === undefined) throw unproven('there is none');
  const { position, count, path } = success.txProof as Json;
  const verdict = verifyTransaction(
    headerOf(success.blockHeader as Json),
    String(success.transaction),
    { position: Number(position), count: Number(count), path: pathOf(path) },
  );
  if (!verdict.ok) throw unproven(verdict.reason);
  const proven = verdict.value as Json;
  if (proven.id !== success.txId) throw unproven('the proof is about another transaction');
  const isOurs =
    proven.kind === 'write' &&
    proven.organization === call.organization &&
    (proven.vault ?? null) === (call.vault ?? null) &&
    proven.client === call.clientId &&
    proven.key === toHex(fromBase64(call.idempotencyKey)) &&
    proven.assigned_sequence === String(success.assignedSequence);
  if (!isOurs) throw unproven('the transaction is not the one that was sent');
}

/** An entity as its row has it. */
interface KeptEntity {
  readonly value?: string;
  readonly expires_at?: number | null;
}

/** The row of an entity, `undefined` if it is proven that there is none. */
export function provenEntity(answer: Json, name: string): KeptEntity | undefined {
  const { accountCount, accounts, rows } = (answer.parts ?? {}) as Json;
  const { bucketCount, bucket, path } = (answer.proof ?? {}) as Json;
  const row = String(answer.row);
  const verdict = verifyRow(
    headerOf(answer.blockHeader),
    row,
    { accountCount: Number(accountCount), accounts: String(accounts), rows: String(rows) },
    { bucketCount: Number(bucketCount), bucket: String(bucket), path: pathOf(path) },
  );
  if (!verdict.ok) throw unproven(verdict.reason);
  // The proof is about a row; that it is this entity's row is for us to see.
  if (row !== name) throw unproven('the proof is about another key');
  return verdict.value as KeptEntity | undefined;
}

/** The account that `GET /account/{id}/proof` shows. */
export function provenAccount(answer: Json, id: string): AccountRecord {
  const number = Number(/^acct_(\d{1,15})$/.exec(id)?.[1] ?? Number.NaN);
  const { account_count: accountCount, accounts, rows } = (answer.parts ?? {}) as Json;
  const { account_count, leaf, path } = (answer.proof ?? {}) as Json;
  const verdict = verifyAccount(
    headerOf(answer.block_header),
    number,
    { accountCount: Number(accountCount), accounts: String(accounts), rows: String(rows) },
    { accountCount: Number(account_count), leaf: String(leaf), path: siblingsOf(path) },
  );
  if (!verdict.ok) throw unproven(verdict.reason);
  return verdict.value;
}

/** The transaction that `GET /transaction/{id}/proof` shows. */
export function provenTransaction(answer: Json, id: string): Json {
  const { position, count, path } = (answer.proof ?? {}) as Json;
  const proof = { position: Number(position), count: Number(count), path: siblingsOf(path) };
  const verdict = verifyTransaction(
    headerOf(answer.block_header),
    String(answer.transaction),
    proof,
  );
  if (!verdict.ok) throw unproven(verdict.reason);
  const transaction = verdict.value as Json;
  if (transaction.id !== id) throw unproven('the proof is about another transaction');
  return transaction;
}

function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export function headerOf(given: unknown): LedgerHeader {
  const header = (given ?? {}) as Json;
  return {
    height: Number(header.height),
    previous: String(header.previous),
    transactions: String(header.transactions),
    count: Number(header.count),
    state: String(header.state),
    at: Number(header.at),
    term: Number(header.term),
  };
}

function pathOf(path: unknown): ProofPath {
  return ((path ?? []) as { siblings?: string[] }[]).map(({ siblings = [] }) => siblings);
}

function siblingsOf(path: unknown): ProofPath {
  const isPath = Array.isArray(path) && path.every(Array.isArray);
  if (!isPath) throw unproven('there is no path');
  return path as ProofPath;
}
