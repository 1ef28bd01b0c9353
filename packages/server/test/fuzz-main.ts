// npm run fuzz [-- REQUESTS [SEED]]: sends broken requests to a server of its own, a million by default.
import { fuzz } from './fuzz.ts';
import { startServer } from './running-program.ts';

const requests = Number(process.argv[2] ?? 1_000_000);
const seed = Number(process.argv[3] ?? Date.now() % 1_000_000);
if (!Number.isSafeInteger(requests) || !Number.isSafeInteger(seed) || requests < 1) {
  console.error('Usage: npm run fuzz [-- REQUESTS [SEED]]');
  process.exit(2);
}
const server = await startServer({ ONCEWARD_LOG_LEVEL: 'error' });
console.log(`${requests} requests with seed ${seed} to ${server.url}`);
const began = performance.now();
const { findings, statuses } = await fuzz({
  url: server.url,
  requests,
  seed,
  connections: 64,
  refusalsAreOurs: true,
  progress(done) {
    if (done % 20_000 === 0) console.log(`${done} sent`);
  },
});
const seconds = Math.round((performance.now() - began) / 1_000);
const healthy = await fetch(`${server.url}/readyz`).then(
  (response) => response.status === 200,
  () => false,
);
await server.stop();
console.log(`${seconds} s; answers by status (0: closed without one):`);
for (const [status, count] of [...statuses].sort()) console.log(`  ${status}  ${count}`);
for (const finding of findings) console.error(finding);
if (!healthy) console.error('The server is not ready any more.');
console.log(`${findings.length} findings, server ${healthy ? 'well' : 'NOT well'}`);
process.exitCode = findings.length === 0 && healthy ? 0 : 1;
