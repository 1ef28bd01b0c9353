import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2';
import type { DurationMs } from '../../engine/units.ts';

/** A call that the server answered with an error, by gRPC's numbers. */
export class GrpcError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** A call that may or may not have reached the server. */
export class ChannelBroken extends Error {}

const FRAME_HEAD_BYTES = 5;

/** gRPC over one HTTP/2 connection, as far as unary calls and server streams without compression go. */
export class GrpcChannel {
  readonly #session: ClientHttp2Session;
  #waiting = 0;

  private constructor(session: ClientHttp2Session) {
    this.#session = session;
  }

  static open(
    endpoint: string,
    timeoutMs: DurationMs,
    onClose: (channel: GrpcChannel) => void,
  ): Promise<GrpcChannel> {
    return new Promise((resolve, reject) => {
      const session = connect(endpoint);
      const channel = new GrpcChannel(session);
      const timer = setTimeout(
        () => session.destroy(new Error('connecting took too long')),
        timeoutMs,
      );
      session.unref();
      // The first word of the server. A connection alone proves nothing: the kernel takes it for a process that hangs.
      session.once('remoteSettings', () => {
        clearTimeout(timer);
        resolve(channel);
      });
      // Calls in flight get the error from their own streams.
      session.on('error', reject);
      session.once('goaway', () => onClose(channel));
      session.once('close', () => {
        clearTimeout(timer);
        onClose(channel);
        reject(new Error('the connection was closed'));
      });
    });
  }

  /** One message there, one message back. */
  call(path: string, request: Uint8Array): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const stream = this.#request(path);
      this.#wait(1);
      let answer: Buffer | null = null;
      readFrames(stream, (frame) => {
        answer = frame;
      });
      onEnd(stream, (error) => {
        this.#wait(-1);
        if (error !== null) reject(error);
        else if (answer === null) reject(new ChannelBroken('the answer was empty'));
        else resolve(answer);
      });
      stream.end(frameOf(request));
    });
  }

  /** One message there, any number back until the returned function is called or `end` is called with why it ended. */
  stream(
    path: string,
    request: Uint8Array,
    message: (frame: Buffer) => void,
    end: (error: Error | null) => void,
  ): () => void {
    const stream = this.#request(path);
    readFrames(stream, message);
    onEnd(stream, end);
    stream.write(frameOf(request));
    return () => stream.close(constants.NGHTTP2_CANCEL);
  }

  close(): void {
    this.#session.destroy();
  }

  /** A pending call keeps the process alive; an idle connection does not. */
  #wait(change: 1 | -1): void {
    this.#waiting += change;
    if (this.#waiting > 0) this.#session.ref();
    else this.#session.unref();
  }

  #request(path: string): ClientHttp2Stream {
    return this.#session.request({
      te: 'trailers',
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc+proto',
    });
  }
}

function frameOf(message: Uint8Array): Buffer {
  const frame = Buffer.alloc(FRAME_HEAD_BYTES + message.length);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, FRAME_HEAD_BYTES);
  return frame;
}

function readFrames(stream: ClientHttp2Stream, deliver: (frame: Buffer) => void): void {
  let buffered: Buffer = Buffer.alloc(0);
  stream.on('data', (chunk: Buffer) => {
    buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk]);
    while (buffered.length >= FRAME_HEAD_BYTES) {
      const end = FRAME_HEAD_BYTES + buffered.readUInt32BE(1);
      if (buffered.length < end) return;
      deliver(buffered.subarray(FRAME_HEAD_BYTES, end));
      buffered = buffered.subarray(end);
    }
  });
}

/** The status stands in the trailers, or in the headers when there is nothing else. */
function onEnd(stream: ClientHttp2Stream, ended: (error: Error | null) => void): void {
  let status: string | undefined;
  let message = '';
  let failure: Error | null = null;
  const readStatus = (headers: Record<string, unknown>) => {
    if (headers['grpc-status'] === undefined) return;
    status = String(headers['grpc-status']);
    message = decodeURIComponent(String(headers['grpc-message'] ?? ''));
  };
  stream.on('response', readStatus);
  stream.on('trailers', readStatus);
  stream.on('error', (error) => {
    failure = error;
  });
  stream.once('close', () => {
    if (status === '0') ended(null);
    else if (status !== undefined) ended(new GrpcError(Number(status), message));
    else ended(new ChannelBroken(failure?.message ?? 'the connection broke'));
  });
}
