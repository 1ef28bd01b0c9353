import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOMS_PAGE, withRoomTables } from './room-table.ts';
import { ROOT } from './source-file.ts';

const path = join(ROOT, ROOMS_PAGE);
writeFileSync(path, withRoomTables(readFileSync(path, 'utf8')));
