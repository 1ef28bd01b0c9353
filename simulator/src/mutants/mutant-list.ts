import { ANSWERS } from './answers.ts';
import { CLAIMS } from './claims.ts';
import { END_TO_END } from './end-to-end.ts';
import type { Mutant } from './mutant.ts';
import { OUTSIDERS } from './outsiders.ts';
import { RETENTION } from './retention.ts';
import { WRITES } from './writes.ts';

export const MUTANTS: readonly Mutant[] = [
  ...CLAIMS,
  ...WRITES,
  ...ANSWERS,
  ...RETENTION,
  ...OUTSIDERS,
  ...END_TO_END,
];
