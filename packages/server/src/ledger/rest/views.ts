import type {
  AccountEntry,
  CommittedTransaction,
  IdempotencyView,
  IntegrityReport,
  ProvenTransaction,
  RecoveredTransaction,
  TransactionView,
  VerifiedAccount,
} from '@onceward/ledger';

/** The answer to a transaction, now and when it is asked for later. Amounts are decimal text: no parser rounds them. */
export function showCommitted(transaction: CommittedTransaction) {
  return {
    transaction_id: transaction.transactionId,
    journal_entries: transaction.journalEntries,
    created_at: iso(transaction.createdAt),
    block_height: transaction.blockHeight,
  };
}

/** As text: the request may hold numbers that no double does. */
export function idempotencyText(found: IdempotencyView): string {
  const { key, requestText, response, createdAt, status } = found;
  const { code, message } = response.ok ? { code: '', message: '' } : response;
  const before = { idempotency_key: key, status };
  const after = {
    response: response.ok ? showCommitted(response) : { error: { code, message } },
    created_at: iso(createdAt),
  };
  const [head, tail] = [JSON.stringify(before).slice(0, -1), JSON.stringify(after).slice(1)];
  return `${head},"request":${requestText},${tail}`;
}

/** Another credential's key is private, so none is shown. */
export function showTransaction({ transaction, createdAt, blockHeight }: TransactionView) {
  const { id, status, actor, entries = [], error } = transaction;
  return {
    transaction_id: id,
    status,
    actor,
    journal_entries: entries.map((entry) => ({ id: `${id}_${entry.sequence}`, ...entry })),
    created_at: iso(createdAt),
    block_height: blockHeight,
    ...(error === undefined ? {} : { error }),
  };
}

export function showAccountProof({ account, number, header, parts, proof }: VerifiedAccount) {
  const { accountCount, accounts, rows } = parts;
  return {
    account: { ...account, balance: account.balance.toString(), number },
    block_header: header,
    parts: { account_count: accountCount, accounts, rows },
    proof: { account_count: proof.accountCount, leaf: proof.leaf, path: pathOf(proof) },
  };
}

export function showTransactionProof({ block, transaction, proof }: ProvenTransaction) {
  const { position, count } = proof;
  return {
    transaction,
    block_header: block.header,
    proof: { position, count, path: pathOf(proof) },
  };
}

function pathOf({ path }: { readonly path: readonly (readonly string[])[] }): string[][] {
  return path.map((siblings) => [...siblings]);
}

export function showAccountEntry(entry: AccountEntry) {
  return {
    id: entry.id,
    transaction_id: entry.transactionId,
    sequence: entry.sequence,
    type: entry.type,
    asset: entry.asset,
    amount: entry.amount,
    direction: entry.direction,
    counterpart: entry.counterpart,
    balance_after: entry.balanceAfter,
    created_at: iso(entry.createdAt),
  };
}

export function showRecovered(record: RecoveredTransaction) {
  return {
    idempotency_key: record.idempotencyKey,
    transaction_id: record.transactionId,
    status: record.status,
    created_at: iso(record.createdAt),
  };
}

export function showIntegrity({ ok, chain, state }: IntegrityReport) {
  const assets = state.assets.map(({ asset, accounts, sum }) => ({
    asset,
    accounts,
    sum: `${sum}`,
  }));
  return { ok, chain, state: { ...state, assets } };
}

/** All transactions of a block have one time, so the last one is likely to be asked for again. */
let lastAt = 0;
let lastText = new Date(0).toISOString();

function iso(at: number): string {
  if (at !== lastAt) {
    lastAt = at;
    lastText = new Date(at).toISOString();
  }
  return lastText;
}
