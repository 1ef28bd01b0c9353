import { ClientError } from './client-error.ts';
import { type ClientWorld, realWorld, withDeadline } from './client-world.ts';
import { type LedgerHeader, type ProofPath, verifyRow, verifyTransaction } from './verify-proof.ts';

export interface LedgerClientOptions {
  /** The server's address, such as `https://ledger.example`. */
  readonly url: string;
  /** Asked for each call, so that a credential can be renewed: `x-api-key` and `x-api-secret`. */
  readonly headers: () => Readonly<Record<string, string>>;
  readonly fetch?: typeof fetch;
  readonly world?: ClientWorld;
  /** A call without an answer is given up after this; what it asked for may have happened. */
  readonly timeoutMs?: number;
}

/** Whose stream of sequences: a client's, in an organization or in one of its vaults. */
export interface LedgerStream {
  readonly organization: string;
  readonly vault?: string;
  readonly clientId: string;
}

/** What the server said to a write. Sequences are u64, so they are bigints here and text on the wire. */
export type WriteAnswer =
  | {
      readonly kind: 'success';
      readonly txId: string;
      readonly blockHeight: number;
      readonly sequence: bigint;
    }
  | {
      readonly kind: 'error';
      readonly code: string;
      readonly message: string;
      readonly lastCommittedSequence: bigint | null;
      readonly assignedSequence: bigint | null;
      readonly committedTxId: string | null;
      readonly committedBlockHeight: number | null;
    };

export interface WriteCall extends LedgerStream {
  readonly sequence: bigint;
  /** Base64 of the 16 bytes of a UUID of version 4. */
  readonly idempotencyKey: string;
  /** As they stand in JSON: bytes are base64. */
  readonly operations: readonly unknown[];
}

type Json = Readonly<Record<string, unknown>>;

/** A call that the server refused for good, or that never got an answer. */
export class LedgerCallError extends Error {
  override readonly name = 'LedgerCallError';
  /** The status as Connect names it, such as `invalid_argument`; `no_answer` if there was none. */
  readonly status: string;
  /** Whether the same call may succeed later. */
  readonly isTransient: boolean;

  /** Whether the credential is missing, wrong or expired: the call itself was not looked at. */
  get isUnauthenticated(): boolean {
    return this.status === 'unauthenticated' || this.status === 'http_401';
  }

  constructor(status: string, message: string, isTransient: boolean, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.isTransient = isTransient;
  }
}

const TIMEOUT_MS = 30_000;
const TRANSIENT = new Set(['unavailable', 'resource_exhausted', 'deadline_exceeded', 'aborted']);

/** Said by whoever stands before the ledger, in words of their own. */
const TURNED_AWAY = new Set([408, 425, 429]);

/** The ledger's calls over Connect in JSON, with nothing but `fetch`. */
export class LedgerClient {
  readonly #options: LedgerClientOptions;
  readonly #base: string;

  constructor(options: LedgerClientOptions) {
    if (!URL.canParse(options.url)) {
      throw new ClientError('INVALID_INPUT', 'url must be the address of a ledger.');
    }
    this.#options = options;
    this.#base = `${options.url.replace(/\/$/, '')}/onceward.ledger.v1.`;
  }

  /** `verify`: the proof that the write is in its block is asked for and checked. */
  async write(call: WriteCall, verify: boolean): Promise<WriteAnswer> {
    const body = { ...call, sequence: call.sequence.toString(), includeTxProof: verify };
    const answer = await this.#call('WriteService/Write', body);
    const success = answer.success as Json | undefined;
    if (success === undefined) {
      // Whoever wrote this was not the ledger; the write may have happened.
      if (answer.error === undefined) throw noAnswer('WriteService/Write');
      return errorOf(answer.error as Json);
    }
    if (verify) assertProven(success);
    return {
      kind: 'success',
      txId: String(success.txId),
      blockHeight: Number(success.blockHeight),
      sequence: BigInt(String(success.assignedSequence)),
    };
  }

  async lastCommittedSequence(stream: LedgerStream): Promise<bigint> {
    const answer = await this.#call('ReadService/GetClientState', { ...stream });
    return BigInt(String(answer.lastCommittedSequence ?? '0'));
  }

  /** An entity as a block proves it; `null` if the block proves that there is none. */
  async verifiedRead(
    scope: { readonly organization: string; readonly vault?: string },
    key: string,
  ): Promise<{ readonly value: Uint8Array; readonly header: LedgerHeader } | null> {
    const answer = await this.#call('ReadService/VerifiedRead', { ...scope, key });
    const header = headerOf(answer.blockHeader as Json);
    const { accountCount, accounts, rows } = answer.parts as Json;
    const { bucketCount, bucket, path } = answer.proof as Json;
    const row = String(answer.row);
    const verdict = verifyRow(
      header,
      row,
      { accountCount: Number(accountCount), accounts: String(accounts), rows: String(rows) },
      { bucketCount: Number(bucketCount), bucket: String(bucket), path: pathOf(path) },
    );
    if (!verdict.ok) throw unproven(verdict.reason);
    // The proof is about a row; that it is this entity's row is for us to see.
    if (row !== `entity/${scope.organization}/${scope.vault ?? '-'}/${key}`)
      throw unproven('the proof is about another key');
    const kept = verdict.value as { readonly value?: string } | undefined;
    if (answer.exists !== true) return null;
    if (kept?.value !== answer.value) throw unproven('the value is not the one in the proof');
    return { value: fromBase64(String(answer.value)), header };
  }

  async #call(method: string, body: Json): Promise<Json> {
    const { fetch: send = fetch, world = realWorld, timeoutMs = TIMEOUT_MS } = this.#options;
    const headers = { 'content-type': 'application/json', ...this.#options.headers() };
    const never = new AbortController().signal;
    let response: Response;
    let text: string;
    try {
      [response, text] = await withDeadline(world, timeoutMs, never, async (signal) => {
        const init = { method: 'POST', headers, body: JSON.stringify(body), signal };
        const answer = await send(this.#base + method, init);
        return [answer, await answer.text()] as const;
      });
    } catch (cause) {
      throw noAnswer(method, cause);
    }
    const answer = parse(text);
    if (response.ok && answer !== null) return answer;
    const status = typeof answer?.code === 'string' ? answer.code : `http_${response.status}`;
    const isTransient =
      response.ok ||
      response.status >= 500 ||
      TURNED_AWAY.has(response.status) ||
      TRANSIENT.has(status);
    throw new LedgerCallError(status, String(answer?.message ?? text.slice(0, 200)), isTransient);
  }
}

function noAnswer(method: string, cause?: unknown): LedgerCallError {
  return new LedgerCallError('no_answer', `No answer to ${method}.`, true, cause);
}

function errorOf(error: Json): WriteAnswer {
  const sequence = (value: unknown) => (value === undefined ? null : BigInt(String(value)));
  return {
    kind: 'error',
    code: String(error.code ?? 'UNSPECIFIED'),
    message: String(error.message ?? ''),
    lastCommittedSequence: sequence(error.lastCommittedSequence),
    assignedSequence: sequence(error.assignedSequence),
    committedTxId: error.committedTxId === undefined ? null : String(error.committedTxId),
    committedBlockHeight:
      error.committedBlockHeight === undefined ? null : Number(error.committedBlockHeight),
  };
}

function assertProven(success: Json): void {
  // A repeat whose block is no longer kept has no proof to show.
  if (success.txProof === undefined) return;
  const { position, count, path } = success.txProof as Json;
  const verdict = verifyTransaction(
    headerOf(success.blockHeader as Json),
    String(success.transaction),
    { position: Number(position), count: Number(count), path: pathOf(path) },
  );
  if (!verdict.ok) throw unproven(verdict.reason);
  const { id } = verdict.value as { readonly id?: unknown };
  if (id !== success.txId) throw unproven('the proof is about another transaction');
}

function unproven(reason: string): LedgerCallError {
  return new LedgerCallError('unproven', `The ledger's proof does not hold: ${reason}.`, false);
}

function headerOf(header: Json): LedgerHeader {
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

function parse(text: string): Json | null {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return null;
  }
}

export function toBase64(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
