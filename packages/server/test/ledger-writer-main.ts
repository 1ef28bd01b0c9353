/** A process with a writer, for tests that kill it. Each result is a line of its output. */
import { LedgerClient, LedgerWriter } from 'onceward/client/ledger';
import { openLogStorage } from 'onceward/client/node';
import { ADMIN } from './running-program.ts';

const [url = '', organization = '', directory = '', mode = '', ...keys] = process.argv.slice(2);

process.on('unhandledRejection', (error) => console.log('unhandled', (error as Error).message));

const client = new LedgerClient({ url, headers: () => ADMIN });
const writer = await LedgerWriter.open({
  client,
  storage: await openLogStorage({ directory }),
  stream: { organization, clientId: 'killed' },
  async onResult(_, result) {
    console.log('told', result.ok ? result.txId : result.code);
    if (mode === 'throw') throw new Error('of the application');
    if (mode === 'kill') process.kill(process.pid, 'SIGKILL');
    // `writer` is defined, also when this is called for an earlier process.
    if (mode === 'tell') await client.lastCommittedSequence({ organization, clientId: 'killed' });
    console.log('last', Number(writer.lastUsedSequence));
  },
});
for (const key of keys) {
  const value = new TextEncoder().encode(key);
  const result = await writer.write([
    { setEntity: { key, value, condition: { notExists: true } } },
  ]);
  console.log('answered', result.ok ? result.txId : result.code);
}
await writer.idle();
// Rejections that nobody handles are reported after this.
await new Promise((resolve) => setImmediate(resolve));
process.exit();
