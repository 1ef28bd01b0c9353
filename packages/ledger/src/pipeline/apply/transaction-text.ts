import { transactionId } from '../../rules/transaction-id.ts';

/**
 * A transaction as the text that a block holds and a proof proves: the request as it was logged, with its id
 * before it and what became of it behind.
 */
export function transactionText(
  height: number,
  position: number,
  request: string,
  result: string,
): string {
  const id = transactionId({ height, position });
  return `{"id":"${id}",${request.slice(1, -1)},${result}}`;
}
