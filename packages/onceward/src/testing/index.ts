export { type DiskFaults, type DiskOperation, PowerCutDisk } from './power-cut-disk.ts';
export {
  type OpenedStore,
  type StoreLaw,
  type StoreSuiteOptions,
  storeSuite,
} from './store-suite.ts';
