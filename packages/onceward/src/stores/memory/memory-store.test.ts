import { storeSuite } from '../../testing/stores/store-suite.ts';
import { memoryStore } from './index.ts';

storeSuite({
  name: 'memory',
  async open() {
    const store = memoryStore();
    return { store, close: () => store.close() };
  },
});
