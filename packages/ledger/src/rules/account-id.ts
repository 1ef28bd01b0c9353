const PREFIX = 'acct_';
const NUMBER = /^acct_(0|[1-9][0-9]{0,14})$/;

export function accountId(number: number): string {
  return PREFIX + number;
}

/** The number in an account's id, whether or not there is such an account; `undefined` if it is no id at all. */
export function accountNumber(id: string): number | undefined {
  return NUMBER.test(id) ? Number(id.slice(PREFIX.length)) : undefined;
}
