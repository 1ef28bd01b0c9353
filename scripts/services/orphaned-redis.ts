/** Starts a server and never stops it: for the test that kills this process. */
import { readlinkSync } from 'node:fs';
import { dirname } from 'node:path';
import { startRedis } from './redis.ts';

const server = await startRedis();
// Redis works in the data folder of its temporary folder.
const folder = dirname(readlinkSync(`/proc/${server.pid}/cwd`));
process.send?.({ pid: server.pid, folder });
setInterval(() => {}, 60_000);
