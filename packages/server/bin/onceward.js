#!/usr/bin/env node
// A file of its own, so that the command is there from the first installation on, before anything was built.
import { existsSync } from 'node:fs';

const program = new URL('../dist/cli.js', import.meta.url);
if (existsSync(program)) {
  await import(program.href);
} else {
  process.stderr.write('onceward: not built yet; `npm start` builds it, or `npm run build`\n');
  process.exitCode = 1;
}
