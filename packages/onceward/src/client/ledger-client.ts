import { ClientError } from './client-error.ts';
import { type ClientWorld, realWorld, withDeadline } from './client-world.ts';
import { HeaderChain, type LedgerAnchor } from './ledger-anchor.ts';
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
  /**
   * A block of the ledger that is known to be right: every proof must belong to its chain. `first` believes the
   * first proven header. `client.anchor` is the newest, for the next start. Left out, headers are not tied to each
   * other. It costs a call for each block between two proofs.
   */
  readonly anchor?: LedgerAnchor | 'first';
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

/** An entity as its row has it. */
interface KeptEntity {
  readonly value?: string;
  readonly expires_at?: number | null;
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
  readonly #chain: HeaderChain | null;

  constructor(options: LedgerClientOptions) {
    if (!URL.canParse(options.url)) {
      throw new ClientError('INVALID_INPUT', 'url must be the address of a ledger.');
    }
    this.#options = options;
    this.#base = `${options.url.replace(/\/$/, '')}/onceward.ledger.v1.`;
    const { anchor } = options;
    const fetchHeader = async (height: number) => {
      const { block } = await this.#call('ReadService/GetBlock', { height: `${height}` });
      return headerOf((block as Json).header as Json);
    };
    const first = anchor === 'first' ? null : (anchor ?? null);
    this.#chain = anchor === undefined ? null : new HeaderChain(first, fetchHeader);
  }

  /** The newest block that was checked; `null` before the first, and without an anchor. */
  get anchor(): LedgerAnchor | null {
    return this.#chain?.tip ?? null;
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
    if (verify) {
      assertProven(success, call);
      await this.#assertAnchored(headerOf(success.blockHeader as Json));
    }
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
    await this.#assertAnchored(header);
    const kept = verdict.value as KeptEntity | undefined;
    if (answer.exists !== true) {
      const now = Math.max(header.at, (this.#options.world ?? realWorld).now());
      if (kept !== undefined && !((kept.expires_at ?? Number.POSITIVE_INFINITY) <= now)) {
        throw unproven('the proof shows an entity that is said not to exist');
      }
      return null;
    }
    if (kept?.value !== answer.value) throw unproven('the value is not the one in the proof');
    return { value: fromBase64(String(answer.value)), header };
  }

  async #assertAnchored(header: LedgerHeader): Promise<void> {
    const problem = await this.#chain?.check(header);
    if (typeof problem === 'string') throw unproven(problem);
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

/** Proven is only what was sent: by this client, in this scope, under this key and sequence. */
function assertProven(success: Json, call: WriteCall): void {
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

function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
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
