import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Block, BlockHeader } from '@onceward/ledger';
import type { BlockHeaderSchema, BlockSchema, ProofStepSchema } from '@onceward/ledger/rpc';

export function headerMessage(header: BlockHeader): MessageInitShape<typeof BlockHeaderSchema> {
  const { height, previous, transactions, count, state, at, term } = header;
  return {
    height: BigInt(height),
    previous,
    transactions,
    count,
    state,
    at: BigInt(at),
    term: BigInt(term),
  };
}

export function blockMessage(block: Block): MessageInitShape<typeof BlockSchema> {
  const { header, hash, texts } = block;
  return { header: headerMessage(header), hash, transactions: [...texts] };
}

export function pathMessage(
  path: readonly (readonly string[])[],
): MessageInitShape<typeof ProofStepSchema>[] {
  return path.map((siblings) => ({ siblings: [...siblings] }));
}
