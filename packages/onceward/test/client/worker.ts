import { indexedDbStorage, Outbox } from '../../src/client/index.ts';
import { sendInBackground } from '../../src/client/service-worker.ts';

sendInBackground(
  globalThis,
  'outbox',
  () => new Outbox({ storage: indexedDbStorage(), start: false }),
);
