import type { JournalEntry, JournalSide } from './journal.ts';
import type { JournalRequest, Request } from './request.ts';

/**
 * A request as JSON: exactly what `JSON.stringify` gives. Transactions are by far the most frequent, and
 * everything in them but actor, credential and key is known to need no escaping, so they are put together by
 * hand.
 */
export function requestText(request: Request): string {
  return request.kind === 'journal' ? journalText(request) : JSON.stringify(request);
}

function journalText({
  actor,
  credential,
  key,
  first_sent,
  sent,
  entries,
}: JournalRequest): string {
  const names = `"actor":${JSON.stringify(actor)},"credential":${JSON.stringify(credential)}`;
  let list = entryText(entries[0] as JournalEntry);
  for (let at = 1; at < entries.length; at += 1)
    list += `,${entryText(entries[at] as JournalEntry)}`;
  const form = sent === undefined ? '' : `"sent":${JSON.stringify(sent)},`;
  const since = first_sent === undefined ? '' : `"first_sent":${first_sent},`;
  return `{"kind":"journal",${names},"key":${JSON.stringify(key)},${since}${form}"entries":[${list}]}`;
}

function entryText({ sequence, type, asset, amount, debit, credit }: JournalEntry): string {
  return (
    `{"sequence":${sequence},"type":"${type}","asset":"${asset}","amount":"${amount}",` +
    `"debit":${sideText(debit)},"credit":${sideText(credit)}}`
  );
}

function sideText({ account_id, balance_policy }: JournalSide): string {
  return `{"account_id":"${account_id}","balance_policy":"${balance_policy}"}`;
}
