// node --import ./scripts/typescript.mjs FILE.ts runs TypeScript as it is written: types are taken out, nothing is
// put in. (tsx also names every function at run time, which costs up to a third on hot paths.)
import { register } from 'node:module';

register('./typescript-hooks.mjs', import.meta.url);
