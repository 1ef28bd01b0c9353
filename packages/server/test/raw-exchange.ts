import { connect } from 'node:net';

export interface RawAnswer {
  /** What came back; empty when the connection was closed without a word. */
  readonly text: string;
  readonly status: number | null;
  /** The server neither answered nor closed, though nothing more was to come. */
  readonly hung: boolean;
}

/** A server that still waits for the rest of a request gets its end after this. */
const QUIET_MS = 150;
const HANG_MS = 10_000;

/** Sends bytes as they are, in the given pieces, and gives what comes back. */
export function exchangeRaw(url: string, pieces: readonly Buffer[]): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({ port: Number(port), host: hostname, noDelay: true });
    const chunks: Buffer[] = [];
    let quiet: NodeJS.Timeout;
    const finish = (hung: boolean) => {
      clearTimeout(quiet);
      clearTimeout(hang);
      socket.destroy();
      const text = finalAnswer(Buffer.concat(chunks)).toString('latin1');
      const status = /^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1];
      resolve({ text, status: status === undefined ? null : Number(status), hung });
    };
    const hang = setTimeout(() => finish(true), HANG_MS);
    const endWhenQuiet = () => {
      clearTimeout(quiet);
      quiet = setTimeout(() => socket.end(), QUIET_MS);
    };
    socket.on('connect', () => {
      for (const piece of pieces) socket.write(piece);
      endWhenQuiet();
    });
    socket.on('data', (chunk) => {
      chunks.push(chunk);
      if (isWhole(finalAnswer(Buffer.concat(chunks)))) finish(false);
      else endWhenQuiet();
    });
    socket.on('error', () => {});
    socket.on('close', () => finish(false));
  });
}

const INTERIM = /^HTTP\/1\.1 1\d\d [\s\S]*?\r\n\r\n/;

/** What follows the answers that only say "go on". */
function finalAnswer(bytes: Buffer): Buffer {
  const interim = INTERIM.exec(bytes.toString('latin1'))?.[0];
  return interim === undefined ? bytes : finalAnswer(bytes.subarray(interim.length));
}

/** One answer with a declared length has arrived: enough to judge it by. */
function isWhole(bytes: Buffer): boolean {
  const end = bytes.indexOf('\r\n\r\n');
  if (end === -1) return false;
  const head = bytes.toString('latin1', 0, end);
  const length = /^content-length: (\d+)\r?$/im.exec(head)?.[1];
  return length !== undefined && bytes.length >= end + 4 + Number(length);
}
