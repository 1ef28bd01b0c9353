import { Engine } from '../engine/engine.ts';
import type { RecordStore } from '../engine/record-store.ts';
import { nodePlatform } from './node-platform.ts';
import { nodeWorld } from './node-world.ts';
import { stderrAudit } from './stderr-audit.ts';

const engines = new WeakMap<RecordStore, Engine>();

/**
 * The engine of every door that was given this store, and so its near tier and its sweeper. It is there to inspect
 * records, to resolve doubts, and to be closed before the store is:
 *
 *     await engineOf(store).close();
 *     await store.close();
 */
export function engineOf(store: RecordStore): Engine {
  let engine = engines.get(store);
  if (engine === undefined) {
    const around = { world: nodeWorld(), platform: nodePlatform(), audit: stderrAudit };
    engine = new Engine({ store, ...around });
    engines.set(store, engine);
  }
  return engine;
}
