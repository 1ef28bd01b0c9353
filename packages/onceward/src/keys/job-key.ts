import { cryptoBytes, type RandomBytes, toHex } from './random-bytes.ts';

/** The parts of `{client_id}:{sequence}:{nonce}`. */
export interface JobKey {
  readonly clientId: string;
  /** An unsigned 64-bit number: beyond 2^53 a plain number would lose digits. */
  readonly sequence: bigint;
  /** 8 bytes as lower-case hex. It changes when the client restarts, so that sequences may start over. */
  readonly nonce: string;
}

export type ParsedJobKey =
  | { readonly ok: true; readonly parts: JobKey }
  | { readonly ok: false; readonly reason: string };

export const MAX_CLIENT_ID_LENGTH = 200;
export const MAX_SEQUENCE = 2n ** 64n - 1n;

/** Reads the key from the right, because a client id may hold colons itself (`host1.dc1:12345`). */
export function parseJobKey(key: string): ParsedJobKey {
  const beforeNonce = key.lastIndexOf(':');
  const beforeSequence = beforeNonce > 0 ? key.lastIndexOf(':', beforeNonce - 1) : -1;
  if (beforeSequence === -1) {
    return refuse('a job key has the form {client_id}:{sequence}:{nonce}');
  }
  const clientId = key.slice(0, beforeSequence);
  const sequence = key.slice(beforeSequence + 1, beforeNonce);
  const nonce = key.slice(beforeNonce + 1);

  const wrongClient = clientIdProblem(clientId);
  if (wrongClient !== null) return refuse(wrongClient);
  if (!/^(?:0|[1-9][0-9]{0,19})$/.test(sequence) || BigInt(sequence) > MAX_SEQUENCE) {
    return refuse(
      'the sequence of a job key is a decimal number from 0 to 2^64-1, no leading zeros',
    );
  }
  if (!/^[0-9a-fA-F]{16}$/.test(nonce)) {
    return refuse('the nonce of a job key is 8 bytes as 16 hexadecimal digits');
  }
  return {
    ok: true,
    parts: { clientId, sequence: BigInt(sequence), nonce: nonce.toLowerCase() },
  };
}

export function formatJobKey(parts: JobKey): string {
  return `${parts.clientId}:${parts.sequence}:${parts.nonce}`;
}

export interface JobKeys {
  /** The key of the next operation. A retry of the same operation keeps the key it has. */
  next(): string;
}

export interface JobKeysOptions {
  /** The sequence of the first key; 1 unless the client kept its counter across a restart. */
  readonly firstSequence?: bigint;
  readonly randomBytes?: RandomBytes;
}

/** Keys of one life of a client: one nonce, and a sequence that rises by one. */
export function jobKeys(clientId: string, options: JobKeysOptions = {}): JobKeys {
  const wrongClient = clientIdProblem(clientId);
  if (wrongClient !== null) throw new TypeError(wrongClient);
  const nonce = toHex((options.randomBytes ?? cryptoBytes)(8));
  let sequence = options.firstSequence ?? 1n;
  return {
    next() {
      if (sequence < 0n || sequence > MAX_SEQUENCE) {
        throw new RangeError('the sequence of a job key must stay between 0 and 2^64-1');
      }
      return formatJobKey({ clientId, sequence: sequence++, nonce });
    },
  };
}

function clientIdProblem(clientId: string): string | null {
  if (clientId.length < 1 || clientId.length > MAX_CLIENT_ID_LENGTH) {
    return `the client id of a job key has 1 to ${MAX_CLIENT_ID_LENGTH} characters, not ${clientId.length}`;
  }
  return /^[\x21-\x7e]+$/.test(clientId)
    ? null
    : 'the client id of a job key holds visible ASCII characters only, no spaces';
}

function refuse(reason: string): ParsedJobKey {
  return { ok: false, reason };
}
