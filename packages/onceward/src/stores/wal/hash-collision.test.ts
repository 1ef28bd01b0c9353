import { openSegmentLog } from '../../segment-log/index.ts';
import { PowerCutDisk } from '../../testing/stores/power-cut-disk.ts';
import { storeSuite } from '../../testing/stores/store-suite.ts';
import { IdBytes } from './id-bytes.ts';
import { RecordTable } from './record-table.ts';
import { WalStore } from './wal-store.ts';

/** Nearly every id shares its hash with others: the store must distinguish them by their bytes. */
class WeakIdBytes extends IdBytes {
  override load(id: { scope: string; key: string }): void {
    super.load(id);
    this.#weaken();
  }

  override hash(bytes: Uint8Array, at: number, scopeLength: number, keyLength: number): void {
    super.hash(bytes, at, scopeLength, keyLength);
    this.#weaken();
  }

  #weaken(): void {
    this.hash1 = 7;
    this.hash2 &= 1;
    this.scopeHash &= 1;
  }
}

async function openWeak(fileSystem: PowerCutDisk): Promise<WalStore> {
  const table = new RecordTable(new WeakIdBytes());
  const options = { directory: '/weak', kind: 'records', replay: table, fileSystem };
  const log = await openSegmentLog({ ...options, segmentBytes: 1_024 * 1_024 });
  return new WalStore(log, table, 2 * 1_024 * 1_024, 4_096, () => undefined);
}

/**
 * A caller that shows the revision of one record for another is caught by the hash alone. With 64 bits and a
 * secret seed that takes a mistake and a coincidence that will not happen.
 */
const WHY = 'these histories use the revision of one record for another';

storeSuite({
  name: 'wal, when hashes collide',
  async open() {
    let disk = new PowerCutDisk();
    const store = await openWeak(disk);
    let current = store;
    return {
      store,
      async reopen() {
        await current.close();
        current = await openWeak(disk);
        return current;
      },
      async kill() {
        disk = disk.restart();
        current = await openWeak(disk);
        return current;
      },
      close: () => current.close(),
    };
  },
  skip: {
    'sequential-histories': WHY,
    'concurrent-histories': WHY,
    'insert-all': 'it gives up when hashes collide, and swaps find out',
  },
});
