import { transactionId } from '../rules/transaction-id.ts';
import { type Block, hashHeader, NO_BLOCK, transactionsRoot } from './block.ts';

/** What is wrong with a block, by itself or behind the one before; `null` if nothing is. */
export function findBlockFault(
  height: number,
  block: Block | undefined,
  before: Block | undefined,
): string | null {
  if (block === undefined) return 'is missing';
  const { header, texts, hash } = block;
  if (header.height !== height) return `says that it is block ${header.height}`;
  if (hash !== hashHeader(header)) return 'does not have its hash';
  const previous = height === 1 ? NO_BLOCK : before?.hash;
  if (previous !== undefined && header.previous !== previous)
    return 'does not follow the one before';
  if (before !== undefined && header.at < before.header.at) return 'is older than the one before';
  if (header.count !== texts.length || header.transactions !== transactionsRoot(texts)) {
    return 'does not hold the transactions that its header promises';
  }
  for (let position = 0; position < texts.length; position += 1) {
    const id = transactionId({ height, position });
    if (!(texts[position] as string).startsWith(`{"id":"${id}",`)) return `misplaces ${id}`;
  }
  return null;
}
