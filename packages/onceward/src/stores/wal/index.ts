export type { Damage } from '../../segment-log/index.ts';
export { openWalStore, type WalStoreOptions } from './open-wal-store.ts';
export type { WalStore } from './wal-store.ts';
