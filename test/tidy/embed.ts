import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { embeddedModules } from './embedded-text.ts';
import { ROOT, readWorkspace } from './source-file.ts';

for (const [path, text] of embeddedModules(readWorkspace())) writeFileSync(join(ROOT, path), text);
