import type { HeaderList } from './header-list.ts';

/** An answer with all its bytes, ready to be sent. It has no Content-Length: the sender sets it. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: HeaderList;
  readonly body: Uint8Array;
}

/** One whose body the framework had as text. Encoded on first use, which is rare. */
export class TextAnswer implements HttpAnswer {
  readonly kind = 'whole';
  readonly status: number;
  readonly headers: HeaderList;
  readonly text: string;

  constructor(status: number, headers: HeaderList, text: string) {
    this.status = status;
    this.headers = headers;
    this.text = text;
  }

  get body(): Uint8Array {
    return Buffer.from(this.text);
  }
}

/** What became of a handler's answer. */
export type Captured =
  /** It was held back, whole. */
  | ({ readonly kind: 'whole' } & HttpAnswer)
  /** Its body was streamed and not kept. */
  | { readonly kind: 'passed'; readonly status: number; readonly why: 'too_large' | 'stream' }
  /** It broke off half-way by the handler's own fault. */
  | { readonly kind: 'broken'; readonly status: number }
  /** The caller left, and no answer came in all the time that was allowed after that. */
  | { readonly kind: 'abandoned' };

/** These never have a body, and Node and browsers refuse one. */
export function isBodiless(status: number): boolean {
  return status === 204 || status === 205 || status === 304 || status < 200;
}

export const NO_BYTES = new Uint8Array(0);
