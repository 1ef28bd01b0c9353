import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { storeSuite } from '../../testing/stores/store-suite.ts';
import { openWalStore } from './index.ts';

storeSuite({
  name: 'wal',
  async open() {
    const directory = await mkdtemp(join(tmpdir(), 'onceward-wal-'));
    const store = await openWalStore({ directory });
    let current = store;
    return {
      store,
      async reopen() {
        await current.close();
        current = await openWalStore({ directory });
        return current;
      },
      async close() {
        await current.close();
        await rm(directory, { recursive: true });
      },
    };
  },
  skip: { 'survives-kill': 'killed for real in wal-kill.integration.test.ts' },
});
