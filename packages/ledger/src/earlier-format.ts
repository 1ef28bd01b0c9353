import { OncewardError } from 'onceward';

/** Not damage: nothing is rebuilt or written, so that the earlier version can still open it. */
export class EarlierFormat extends OncewardError {
  constructor() {
    super(
      'ONCE_INVALID_CONFIG',
      'This ledger was written by an earlier version, in format 1, which remembered keys only together with ' +
        'their blocks. This version reads format 2 and has applied nothing to it. Either go on with the version that ' +
        'wrote it, or begin a new ledger: move the ledger folder away, start, open the accounts again and post ' +
        'their closing balances.',
    );
  }
}
