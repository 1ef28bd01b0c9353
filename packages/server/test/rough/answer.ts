/** One answer as it came over the wire. */
export interface Answer {
  readonly status: number;
  readonly head: string;
  readonly body: Buffer;
  /** Whether it came to its end. A broken-off answer proves nothing. */
  readonly whole: boolean;
}

const BODILESS = new Set([101, 204, 304]);

/** The final answers in what a connection received. What is not HTTP becomes an answer of status 0. */
export function answersIn(received: Buffer, closed: boolean): Answer[] {
  const answers: Answer[] = [];
  let rest = received;
  while (rest.length > 0) {
    const end = rest.indexOf('\r\n\r\n');
    if (end === -1) break;
    const head = rest.toString('latin1', 0, end);
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? 0);
    rest = rest.subarray(end + 4);
    if (status === 0) return [...answers, { status, head, body: rest, whole: false }];
    if (status === 100) continue;
    const { body, whole, length } = bodyOf(head, status, rest, closed);
    answers.push({ status, head, body, whole });
    // After an upgrade the connection speaks something else.
    if (!whole || status === 101) break;
    rest = rest.subarray(length);
  }
  return answers;
}

interface Read {
  readonly body: Buffer;
  readonly whole: boolean;
  /** How much of the input it took. */
  readonly length: number;
}

function bodyOf(head: string, status: number, rest: Buffer, closed: boolean): Read {
  if (BODILESS.has(status)) return { body: Buffer.alloc(0), whole: true, length: 0 };
  if (/^transfer-encoding: chunked\r?$/im.test(head)) return chunkedBody(rest);
  const declared = /^content-length: (\d+)\r?$/im.exec(head)?.[1];
  if (declared === undefined) return { body: rest, whole: closed, length: rest.length };
  const length = Number(declared);
  return { body: rest.subarray(0, length), whole: rest.length >= length, length };
}

function chunkedBody(rest: Buffer): Read {
  const chunks: Buffer[] = [];
  let at = 0;
  for (;;) {
    const lineEnd = rest.indexOf('\r\n', at);
    const size = lineEnd === -1 ? 0 : Number.parseInt(rest.toString('latin1', at, lineEnd), 16);
    const next = lineEnd + 2 + size + 2;
    if (lineEnd === -1 || next > rest.length) {
      return { body: Buffer.concat(chunks), whole: false, length: rest.length };
    }
    if (size === 0) return { body: Buffer.concat(chunks), whole: true, length: next };
    chunks.push(rest.subarray(lineEnd + 2, next - 2));
    at = next;
  }
}
