export {
  type OpenedStore,
  type StoreLaw,
  type StoreSuiteOptions,
  storeSuite,
} from './store-suite.ts';
