/**
 * What journal entries change of the accounts of a page, as a checkpoint saves it: 24 of the 128 bytes that an
 * account has are enough to bring back any balance of 64 bits. Wider ones have their high words behind the list.
 *
 *   0 balance: low word 8      14 last entry: height 6      22 last entry: entry 2
 *   8 version 6                20 last entry: position 2
 */
const ENTRY_BYTES = 24;
const LOW_WORD = 24;
/** The place of an account in its page, 4 bytes, and the high words of its balance. */
const WIDE_BYTES = 4 + LOW_WORD;

/** How long a page of so many accounts is without its wide balances. */
export function balancesLength(accounts: number): number {
  return accounts * ENTRY_BYTES;
}

/** Writes the fixed part of one account and says whether that is all there is to say of it. */
export function packChange(from: DataView, at: number, to: DataView, place: number): boolean {
  to.setUint32(place, from.getUint32(at + LOW_WORD));
  to.setUint32(place + 4, from.getUint32(at + LOW_WORD + 4));
  to.setUint16(place + 8, from.getUint16(at + 34));
  to.setUint32(place + 10, from.getUint32(at + 36));
  to.setUint16(place + 14, from.getUint16(at + 42));
  to.setUint32(place + 16, from.getUint32(at + 44));
  to.setUint16(place + 20, from.getUint16(at + 50));
  to.setUint16(place + 22, from.getUint16(at + 54));
  const sign = from.getInt32(at + LOW_WORD) >> 31;
  for (let word = at; word < at + LOW_WORD; word += 4) {
    if (from.getInt32(word) !== sign) return false;
  }
  return true;
}

/** The high words of one account's balance, to be put behind the fixed parts of its page. */
export function packWide(from: Buffer, at: number, account: number): Buffer {
  const bytes = Buffer.alloc(WIDE_BYTES);
  bytes.writeUInt32BE(account);
  from.copy(bytes, 4, at, at + LOW_WORD);
  return bytes;
}

/** Puts back what `packChange` wrote; the high words follow from the sign of the low one. */
export function unpackChange(from: DataView, place: number, to: DataView, at: number): void {
  const sign = from.getInt32(place) >> 31;
  for (let word = at; word < at + LOW_WORD; word += 4) to.setInt32(word, sign);
  to.setUint32(at + LOW_WORD, from.getUint32(place));
  to.setUint32(at + LOW_WORD + 4, from.getUint32(place + 4));
  to.setUint16(at + 34, from.getUint16(place + 8));
  to.setUint32(at + 36, from.getUint32(place + 10));
  to.setUint16(at + 42, from.getUint16(place + 14));
  to.setUint32(at + 44, from.getUint32(place + 16));
  to.setUint16(at + 50, from.getUint16(place + 20));
  to.setUint16(at + 54, from.getUint16(place + 22));
}

/** The wide balances of a page: the account's place in it, and the high words. */
export function* wideBalances(
  page: Uint8Array,
  accounts: number,
): Iterable<{ readonly account: number; readonly high: Uint8Array }> {
  const view = new DataView(page.buffer, page.byteOffset, page.length);
  for (let at = balancesLength(accounts); at + WIDE_BYTES <= page.length; at += WIDE_BYTES) {
    yield { account: view.getUint32(at), high: page.subarray(at + 4, at + WIDE_BYTES) };
  }
}
