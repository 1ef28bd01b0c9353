import { promises as fs } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';

/**
 * A socket that answers for as long as its process lives. The kernel closes it when the process ends, however it
 * ends, and a process of another container, whose id means nothing here, can still be asked.
 */
export interface LivenessSocket {
  readonly name: string;
  close(): Promise<void>;
}

/** `null` where the file system or the system holds no sockets. */
export async function openLivenessSocket(
  directory: string,
  name: string,
): Promise<LivenessSocket | null> {
  const server = createServer((connection) => connection.destroy());
  const reached = await reach(directory, name);
  const isListening = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(reached.path, () => resolve(true));
  });
  await reached.release();
  if (!isListening) return null;
  server.unref();
  return {
    name,
    async close() {
      await new Promise((resolve) => server.close(resolve));
      await fs.rm(join(directory, name), { force: true });
    },
  };
}

/** Whether the process behind the socket lives. Unknown counts as alive. */
export async function answersAt(directory: string, name: string): Promise<boolean> {
  const reached = await reach(directory, name);
  try {
    return await new Promise<boolean>((resolve) => {
      const connection = connect(reached.path);
      connection.once('connect', () => {
        connection.destroy();
        resolve(true);
      });
      connection.once('error', ({ code }: NodeJS.ErrnoException) => {
        resolve(code !== 'ECONNREFUSED' && code !== 'ENOENT');
      });
    });
  } finally {
    await reached.release();
  }
}

/** A socket's path may have 107 bytes at most; on Linux a longer one is reached through the open folder. */
async function reach(directory: string, name: string) {
  const path = join(directory, name);
  if (Buffer.byteLength(path) <= 100 || process.platform !== 'linux') {
    return { path, release: async () => undefined };
  }
  const handle = await fs.open(directory, 'r');
  return { path: `/proc/self/fd/${handle.fd}/${name}`, release: () => handle.close() };
}
