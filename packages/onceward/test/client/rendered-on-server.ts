import { indexedDbStorage, Outbox } from '../../src/client/index.ts';

/** As a module of an application that is also rendered on a server. */
export const outbox = new Outbox({ storage: indexedDbStorage() });
outbox.status.subscribe(() => {});
process.stdout.write(JSON.stringify(outbox.status.getSnapshot()));
