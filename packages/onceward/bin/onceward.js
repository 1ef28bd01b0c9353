#!/usr/bin/env node
// The command lives in @onceward/server. Who has installed that beside the library finds it here under the short name.
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** What shells say of a command that is not there. */
const NOT_FOUND = 127;

function findCommand() {
  for (const home of [import.meta.url, join(process.cwd(), 'package.json')]) {
    try {
      const manifest = createRequire(home).resolve('@onceward/server/package.json');
      return join(dirname(manifest), 'bin/onceward.js');
    } catch {
      // Not there; perhaps in the folder in which the command was called.
    }
  }
  return null;
}

const command = findCommand();
if (command !== null) {
  await import(pathToFileURL(command).href);
} else {
  const asked = ['npx @onceward/server', ...process.argv.slice(2)].join(' ');
  process.stderr.write(
    `onceward: the command is in @onceward/server, which is not installed here; run \`${asked}\`\n`,
  );
  process.exitCode = NOT_FOUND;
}
