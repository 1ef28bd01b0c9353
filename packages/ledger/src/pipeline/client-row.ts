import { RECEIPTS_PER_CLIENT } from '../limits.ts';
import type { RowTable } from '../state/row-table.ts';
import { receiptKey } from './row-keys.ts';

/** What is known of one client in one scope. */
export type ClientRow = {
  /** The last committed sequence, a u64 in decimal. */
  readonly sequence: string;
  /** The log time of its last write. */
  readonly last_seen: number;
  /** The first half of the key of each receipt, slot by slot; blanks where there is none. */
  readonly keys: string;
};

export type ReceiptRow = {
  readonly sequence: string;
  readonly key: string;
  readonly hash: string;
  readonly height: number;
  readonly position: number;
};

const SHORT_KEY = 16;
const NO_KEYS = ' '.repeat(SHORT_KEY * RECEIPTS_PER_CLIENT);

function slotOf(sequence: bigint): number {
  return Number(sequence % BigInt(RECEIPTS_PER_CLIENT));
}

/** The receipt of the write that had this key, if it is among the last ones. */
export function findReceipt(
  rows: RowTable,
  clientKey: string,
  client: ClientRow | undefined,
  key: string,
): ReceiptRow | undefined {
  if (client === undefined) return undefined;
  const short = key.slice(0, SHORT_KEY);
  let at = client.keys.indexOf(short);
  while (at >= 0) {
    if (at % SHORT_KEY === 0) {
      const receipt = rows.read<ReceiptRow>(receiptKey(clientKey, at / SHORT_KEY));
      if (receipt?.key === key) return receipt;
    }
    at = client.keys.indexOf(short, at + 1);
  }
  return undefined;
}

/** The receipt of a sequence, if it is among the last ones. */
export function receiptOf(
  rows: RowTable,
  clientKey: string,
  sequence: bigint,
): ReceiptRow | undefined {
  const receipt = rows.read<ReceiptRow>(receiptKey(clientKey, slotOf(sequence)));
  return receipt?.sequence === sequence.toString() ? receipt : undefined;
}

/** Notes a committed write: the sequence moves on, and the receipt takes the place of the oldest. */
export function recordWrite(
  rows: RowTable,
  clientKey: string,
  client: ClientRow | undefined,
  receipt: ReceiptRow,
  now: number,
): void {
  const slot = slotOf(BigInt(receipt.sequence));
  const before = client?.keys ?? NO_KEYS;
  const at = slot * SHORT_KEY;
  const keys = before.slice(0, at) + receipt.key.slice(0, SHORT_KEY) + before.slice(at + SHORT_KEY);
  rows.write(receiptKey(clientKey, slot), receipt);
  rows.write(clientKey, { sequence: receipt.sequence, last_seen: now, keys } satisfies ClientRow);
}

export function forgetClient(rows: RowTable, clientKey: string): void {
  rows.remove(clientKey);
  for (let slot = 0; slot < RECEIPTS_PER_CLIENT; slot += 1) {
    rows.remove(receiptKey(clientKey, slot));
  }
}
