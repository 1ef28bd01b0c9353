import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { writeCharge } from './journal.ts';
import { serveCharge } from './storm-api.ts';

/** The API as a process of its own, which may be killed at any moment. */
const [journal = '', port = '', weather = ''] = process.argv.slice(2);
const api = {
  isStormy: () => weather === 'storm',
  charge: (charge: Parameters<typeof writeCharge>[1]) => writeCharge(journal, charge),
};

const server = createServer((request, response) => {
  sleep(Math.random() * 30)
    .then(() => serveCharge(api, request, response))
    .catch(() => response.destroy());
});
server.listen(Number(port), '127.0.0.1', () => process.stdout.write('ready\n'));
