import { fromBase64 } from '../base64.ts';
import { ClientError } from '../client-error.ts';
import { type ClientWorld, realWorld, withDeadline } from '../client-world.ts';
import { FIRST_SENT_HEADER } from '../idempotent-fetch.ts';
import type { AccountRecord, LedgerHeader } from '../verify-proof.ts';
import { HeaderChain, type LedgerAnchor } from './ledger-anchor.ts';
import { LedgerCallError, unproven } from './ledger-call-error.ts';
import {
  assertWritten,
  headerOf,
  type Json,
  provenAccount,
  provenEntity,
  provenTransaction,
} from './ledger-proven.ts';

export interface LedgerClientOptions {
  /** The server's address, such as `https://ledger.example`. */
  readonly url: string;
  /** Called for each request, so that a credential can be renewed: `x-api-key` and `x-api-secret`. */
  readonly headers: () => Readonly<Record<string, string>>;
  readonly fetch?: typeof fetch;
  readonly world?: ClientWorld;
  /** A call without an answer is given up after this; what it asked for may have happened. */
  readonly timeoutMs?: number;
  /**
   * A block of the ledger that is known to be right: every proof must belong to its chain. Left out, the first proven
   * header is believed and those after it must belong to its chain. `client.anchor` is the newest; keep it for the next
   * start. It costs a call for each thousand blocks between two proofs.
   */
  readonly anchor?: LedgerAnchor;
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
  /**
   * When an earlier send was made of which nothing is known, in milliseconds since 1970. A ledger that may have
   * forgotten the key since does not run it: `KEY_EXPIRED`.
   */
  readonly firstSentAt?: number;
}

const WRITE = 'WriteService/Write';
const TIMEOUT_MS = 30_000;
const TRANSIENT = new Set(['unavailable', 'resource_exhausted', 'deadline_exceeded', 'aborted']);

/** Sent by proxies in front of the ledger, not by the ledger. */
const TURNED_AWAY = new Set([408, 425, 429]);

/** The ledger's calls over Connect in JSON, with nothing but `fetch`. */
export class LedgerClient {
  readonly #options: LedgerClientOptions;
  readonly #base: string;
  readonly #chain: HeaderChain;

  constructor(options: LedgerClientOptions) {
    if (!URL.canParse(options.url)) {
      throw new ClientError('INVALID_INPUT', 'url must be the address of a ledger.');
    }
    this.#options = options;
    this.#base = options.url.replace(/\/$/, '');
    this.#chain = new HeaderChain(options.anchor ?? null, async (from, count) => {
      const request = { fromHeight: `${from}`, count };
      const { headers } = await this.#call('ReadService/GetHeaders', request);
      return ((headers ?? []) as Json[]).map(headerOf);
    });
  }

  /** The newest block that was checked; `null` before the first. */
  get anchor(): LedgerAnchor | null {
    return this.#chain.tip;
  }

  /**
   * `verify`: the proof that the write is in its block is asked for and checked. `onCommitted`: the ledger says that
   * it is, and whatever fails from here on is no word about the write.
   */
  async write(
    call: WriteCall,
    verify: boolean,
    onCommitted: () => void = () => {},
  ): Promise<WriteAnswer> {
    const { sequence, idempotencyKey, operations, firstSentAt } = call;
    const write = { ...streamOf(call), idempotencyKey, operations };
    const body = { ...write, sequence: sequence.toString(), includeTxProof: verify };
    const headers = firstSentAt === undefined ? {} : firstSent(firstSentAt);
    const { success, error }: WriteMessage = await this.#call(WRITE, body, headers);
    // An answer with neither is not the ledger's; the write may have happened.
    if (success === undefined && error === undefined) throw noAnswer(WRITE);
    const committed = success ?? asSuccess(error as Json);
    if (committed !== null) {
      onCommitted();
      if (verify) await this.#assertWritten(committed, call);
    }
    if (success === undefined) return errorOf(error as Json);
    return {
      kind: 'success',
      txId: String(success.txId),
      blockHeight: Number(success.blockHeight),
      sequence: BigInt(String(success.assignedSequence)),
    };
  }

  async #assertWritten(success: Json, call: WriteCall): Promise<void> {
    assertWritten(success, call);
    await this.#assertAnchored(success.blockHeader);
  }

  async lastCommittedSequence(stream: LedgerStream): Promise<bigint> {
    const answer = await this.#call('ReadService/GetClientState', { ...streamOf(stream) });
    return BigInt(String(answer.lastCommittedSequence ?? '0'));
  }

  /** An entity as a block proves it; `null` if the block proves that there is none. */
  async verifiedRead(
    scope: { readonly organization: string; readonly vault?: string },
    key: string,
  ): Promise<{ readonly value: Uint8Array; readonly header: LedgerHeader } | null> {
    const { organization, vault } = scope;
    const asked = { organization, ...(vault === undefined ? {} : { vault }), key };
    const answer = await this.#call('ReadService/VerifiedRead', asked);
    const kept = provenEntity(answer, `entity/${organization}/${vault ?? '-'}/${key}`);
    const header = await this.#assertAnchored(answer.blockHeader);
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

  /** An account as the newest block proves it. */
  async verifiedAccount(
    id: string,
  ): Promise<{ readonly account: AccountRecord; readonly header: LedgerHeader }> {
    const answer = await this.#get(`/account/${encodeURIComponent(id)}/proof`);
    const account = provenAccount(answer, id);
    return { account, header: await this.#assertAnchored(answer.block_header) };
  }

  /** A transaction of this credential as its block proves it: its members are those of the block's text. */
  async verifiedTransaction(
    id: string,
  ): Promise<{ readonly transaction: Json; readonly header: LedgerHeader }> {
    const answer = await this.#get(`/transaction/${encodeURIComponent(id)}/proof`);
    const transaction = provenTransaction(answer, id);
    return { transaction, header: await this.#assertAnchored(answer.block_header) };
  }

  async #assertAnchored(given: unknown): Promise<LedgerHeader> {
    const header = headerOf(given);
    const problem = await this.#chain.check(header).catch((error: unknown) => {
      if (!(error instanceof LedgerCallError) || error.isTransient || error.isUnauthenticated) {
        throw error;
      }
      throw unproven('the headers that lead to it are not shown', error);
    });
    if (problem !== null) throw unproven(problem);
    return header;
  }

  #call(method: string, body: Json, headers: HeaderLines = {}): Promise<Json> {
    const url = `${this.#base}/onceward.ledger.v1.${method}`;
    return this.#ask(method, url, { method: 'POST', body: JSON.stringify(body), headers });
  }

  #get(path: string): Promise<Json> {
    return this.#ask(path, this.#base + path, { method: 'GET' });
  }

  async #ask(what: string, url: string, request: Asked): Promise<Json> {
    const { fetch: send = fetch, world = realWorld, timeoutMs = TIMEOUT_MS } = this.#options;
    const said = { 'content-type': 'application/json', ...request.headers };
    const headers = { ...said, ...this.#options.headers() };
    const never = new AbortController().signal;
    let response: Response;
    let text: string;
    try {
      [response, text] = await withDeadline(world, timeoutMs, never, async (signal) => {
        const answer = await send(url, { ...request, headers, signal });
        return [answer, await answer.text()] as const;
      });
    } catch (cause) {
      throw noAnswer(what, cause);
    }
    const answer = parse(text);
    if (response.ok && answer !== null) return answer;
    const { code, message } = (answer?.error ?? answer ?? {}) as Json;
    const status = typeof code === 'string' ? code : `http_${response.status}`;
    const isTransient =
      response.ok ||
      response.status >= 500 ||
      TURNED_AWAY.has(response.status) ||
      TRANSIENT.has(status);
    throw new LedgerCallError(status, String(message ?? text.slice(0, 200)), isTransient);
  }
}

function firstSent(at: number): HeaderLines {
  return { [FIRST_SENT_HEADER]: new Date(at).toUTCString() };
}

function noAnswer(what: string, cause?: unknown): LedgerCallError {
  return new LedgerCallError('no_answer', `No answer to ${what}.`, true, cause);
}

type HeaderLines = Readonly<Record<string, string>>;

interface Asked {
  readonly method: 'GET' | 'POST';
  readonly body?: string;
  readonly headers?: HeaderLines;
}

interface WriteMessage {
  readonly success?: Json;
  readonly error?: Json;
}

/** Nothing else of an object that a caller made: the ledger refuses members that it does not know. */
function streamOf({ organization, vault, clientId }: LedgerStream): LedgerStream {
  return { organization, ...(vault === undefined ? {} : { vault }), clientId };
}

/** A refusal that says the write is committed is as much in need of a proof as a success. */
function asSuccess(error: Json): Json | null {
  if (error.code !== 'ALREADY_COMMITTED' || error.committedTxId === undefined) return null;
  return { ...error, txId: error.committedTxId };
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

function parse(text: string): Json | null {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return null;
  }
}
