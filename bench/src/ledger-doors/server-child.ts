import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildApp, compose, loadConfig, programLog } from '@onceward/server';
import fastify from 'fastify';

/** A bare Fastify that answers as the ledger does, or the whole server. */
export type LedgerServerKind = 'bare' | 'ledger';

interface Listening {
  listen(options: { host: string; port: number }): Promise<string>;
}

interface TransactionBody {
  readonly journal_entries: readonly object[];
}

function bareFastify(): Listening {
  const app = fastify();
  let count = 0;
  app.post<{ Body: TransactionBody }>('/transaction', async (request, reply) => {
    count += 1;
    const transaction_id = `tx_${count}_0`;
    const journal_entries = request.body.journal_entries.map((entry, at) => ({
      id: `${transaction_id}_${at + 1}`,
      ...entry,
    }));
    const created_at = new Date().toISOString();
    return reply
      .code(201)
      .send({ transaction_id, journal_entries, created_at, block_height: count });
  });
  return app;
}

async function onceward(): Promise<Listening> {
  const env = {
    ONCEWARD_DATA: mkdtempSync(join(tmpdir(), 'onceward-bench-')),
    ONCEWARD_API_KEY: 'ak_bench',
    ONCEWARD_API_SECRET: 'sk_bench',
    ONCEWARD_LOG_LEVEL: 'error',
  };
  const program = await compose(loadConfig({ env }), programLog('error'), { ledger: true });
  const caller = { actor: 'client:ak_bench', credential: 'ak_bench' } as const;
  for (let made = 0; made < 2; made += 1) {
    await program.ledger?.createAccount(caller, { category: 'WALLET', asset: 'USD' });
  }
  return buildApp(program, { demo: false });
}

const [kind] = process.argv.slice(2) as [LedgerServerKind];
const app = kind === 'bare' ? bareFastify() : await onceward();
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.send!({ port: Number(new URL(url).port) });
process.on('message', () => process.send!(process.cpuUsage()));
