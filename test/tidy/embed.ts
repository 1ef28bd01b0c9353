import { writeFileSync } from 'node:fs';
import { embeddedModules } from './embedded-text.ts';
import { readWorkspace } from './source-file.ts';

for (const [path, text] of embeddedModules(readWorkspace())) writeFileSync(path, text);
