import type { Location } from '../state/key-table.ts';

const ID = /^tx_([1-9][0-9]{0,14})_(0|[1-9][0-9]{0,4})$/;

/** A transaction's id says where it is: no index is needed to find it, and every replica gives it the same one. */
export function transactionId({ height, position }: Location): string {
  return `tx_${height}_${position}`;
}

export function locate(id: string): Location | undefined {
  const match = ID.exec(id);
  return match ? { height: Number(match[1]), position: Number(match[2]) } : undefined;
}
