import { describe, expect, it } from 'vitest';
import { askLedger, balanceOf, openAccount, pay } from './ledger-client.ts';
import { startServer, temporaryFolder } from './running-program.ts';

const WRITERS = 24;
const KILLS = 3;

interface Sent {
  readonly key: string;
  /** `null`: no answer came. */
  readonly transactionId: string | null;
}

/** Sends until the server is dead. */
async function sendUntilGone(url: string, name: string, sent: Sent[]): Promise<void> {
  for (let at = 0; at < 100_000; at += 1) {
    const key = `${name}-${at}`;
    try {
      const { status, body } = await pay(url, key, { from: 'acct_0', to: 'acct_1', amount: '1' });
      expect(status).toBe(201);
      sent.push({ key, transactionId: String(body.transaction_id) });
    } catch {
      sent.push({ key, transactionId: null });
      return;
    }
  }
}

describe('a server that is killed under load', () => {
  it('[L8] [L5] has every acknowledged transaction once, and says which others it has', async () => {
    const folder = temporaryFolder();
    const env = { ONCEWARD_DATA: folder.path };
    let paid = 0n;
    let server = await startServer(env);
    await openAccount(server.url);
    await openAccount(server.url);
    for (let kill = 0; kill < KILLS; kill += 1) {
      const sent: Sent[] = [];
      const writers = Array.from({ length: WRITERS }, (_, at) =>
        sendUntilGone(server.url, `kill${kill}-${at}`, sent),
      );
      await new Promise((resolve) => setTimeout(resolve, 700 + 150 * kill));
      await server.program.stop('SIGKILL');
      await Promise.all(writers);
      server = await startServer(env);
      const { url } = server;

      const acknowledged = sent.filter(({ transactionId }) => transactionId !== null);
      expect(acknowledged.length).toBeGreaterThan(WRITERS);
      for (const { key, transactionId } of acknowledged) {
        const { body } = await askLedger(url, `/idempotency/${key}`);
        expect(body.response).toMatchObject({ transaction_id: transactionId });
      }
      const recovery = await askLedger(url, '/recovery');
      const records = recovery.body.records as { idempotency_key: string }[];
      const present = new Set(records.map((record) => record.idempotency_key));
      const unanswered = sent.filter(({ transactionId }) => transactionId === null);
      for (const { key } of unanswered) {
        const { status, body } = await pay(url, key, { from: 'acct_0', to: 'acct_1', amount: '1' });
        expect(present.has(key) ? body.error?.code : status).toBe(
          present.has(key) ? 'DUPLICATE_IDEMPOTENCY_KEY' : 201,
        );
      }
      paid += BigInt(sent.length);
      expect(await balanceOf(url, 'acct_1')).toBe(paid.toString());
      expect((await askLedger(url, '/integrity')).body).toMatchObject({ ok: true });
    }
    await server.stop();
    folder.remove();
  });
});
