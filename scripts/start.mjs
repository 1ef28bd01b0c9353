// npm start [-- arguments…]: builds what has changed and serves everything on the embedded store.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, runChild } from './child.mjs';

if (!existsSync(join(ROOT, 'packages/server/package.json'))) {
  console.error('There is no server to start yet: packages/server does not exist. Try `npm test`.');
  process.exit(1);
}
const built = await runChild('npm', ['run', '--silent', 'build']);
if (built !== 0) process.exit(built);
const serve = [join(ROOT, 'packages/server/dist/cli.js'), 'serve', ...process.argv.slice(2)];
process.exitCode = await runChild(process.execPath, serve, { patient: true });
