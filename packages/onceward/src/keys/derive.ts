import { canonicalJson } from './canonical-json.ts';
import { sha256Hex } from './sha256.ts';

export const DERIVED_KEY_LENGTH = 48;

/**
 * Members that change from one attempt to the next although the operation is the same: timestamps, nonces and
 * what the client's clock says. Compared without regard to case, `_` and `-`, at every depth of the body.
 */
export const VOLATILE_FIELDS: readonly string[] = [
  'timestamp',
  'client_timestamp',
  'client_time',
  'client_clock',
  'request_time',
  'sent_at',
  'created_at',
  'updated_at',
  'nonce',
];

export interface KeyMaterial {
  readonly method: string;
  /** The route with its parameters unfilled, such as `/v1/orders`. */
  readonly pathTemplate: string;
  readonly tenant: string;
  /** Who asks: the user id of the credential. */
  readonly subject: string;
  /** The body as a JSON value; left out, the request has none. */
  readonly body?: unknown;
  /** Replaces `VOLATILE_FIELDS`. */
  readonly volatileFields?: readonly string[];
}

/**
 * The same request gives the same key on every device: the first 48 hexadecimal digits of the SHA-256 over
 * method, path template, tenant, subject and canonical body, one to a line. Use it where a client cannot keep
 * a minted key. Two requests that are meant to happen twice need something in the body that differs.
 */
export function deriveKey(material: KeyMaterial): string {
  const { method, pathTemplate, tenant, subject, body } = material;
  const lines = { method: method.toUpperCase(), pathTemplate, tenant, subject };
  for (const [name, line] of Object.entries(lines)) {
    if (/[\r\n]/.test(line)) {
      throw new TypeError(`${name} holds a line break, which would blur it with the next part`);
    }
  }
  const volatile = new Set((material.volatileFields ?? VOLATILE_FIELDS).map(plainName));
  const canonical =
    body === undefined ? '' : canonicalJson(body, (name) => volatile.has(plainName(name)));
  return sha256Hex([...Object.values(lines), canonical].join('\n')).slice(0, DERIVED_KEY_LENGTH);
}

function plainName(name: string): string {
  return name.replace(/[_-]/g, '').toLowerCase();
}
