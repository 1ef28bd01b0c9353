import { type Block, hashHeader, transactionsRoot } from '../blocks/block.ts';
import type { Machine } from './machine.ts';
import type { Applied } from './outcome.ts';

/** Closes what an entry did into a block, behind the block whose hash is `previous`. */
export function sealBlock(machine: Machine, applied: Applied, previous: string): Block {
  const { height, at, texts } = applied;
  const header = {
    height,
    previous,
    transactions: transactionsRoot(texts),
    count: texts.length,
    state: machine.seal(),
    at,
    term: machine.term,
  };
  return { header, hash: hashHeader(header), texts };
}
