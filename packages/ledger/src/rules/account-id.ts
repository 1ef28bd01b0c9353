const PREFIX = 'acct_';
const MAX_DIGITS = 15;
const ZERO = '0'.charCodeAt(0);

export function accountId(number: number): string {
  return PREFIX + number;
}

/**
 * The number in an account's id, whether or not there is such an account; `undefined` if it is no id at all.
 * Read digit by digit, because it is read several times for every transaction.
 */
export function accountNumber(id: string): number | undefined {
  const digits = id.length - PREFIX.length;
  if (digits < 1 || digits > MAX_DIGITS || !id.startsWith(PREFIX)) return undefined;
  let number = 0;
  for (let at = PREFIX.length; at < id.length; at += 1) {
    const digit = id.charCodeAt(at) - ZERO;
    if (digit < 0 || digit > 9 || (digit === 0 && number === 0 && digits > 1)) return undefined;
    number = number * 10 + digit;
  }
  return number;
}
