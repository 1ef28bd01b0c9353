import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ListeningDoor } from './door-app.ts';

/** Puts a Node server on a free loopback port. Closing it ends the connections that are still open. */
export async function listenOn(server: Server): Promise<ListeningDoor> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
