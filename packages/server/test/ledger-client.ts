import { ADMIN } from './running-program.ts';

export type Headers = Readonly<Record<string, string>>;

/** What comes back from the ledger's REST API; which members are there depends on the route. */
export interface LedgerAnswer {
  readonly status: number;
  readonly body: {
    readonly id?: string;
    readonly transaction_id?: string;
    readonly balance?: string;
    readonly version?: number;
    readonly count?: number;
    readonly next_cursor?: string | null;
    readonly error?: {
      readonly code: string;
      readonly message: string;
      readonly layer?: string;
      readonly retry?: string;
    };
    readonly [member: string]: unknown;
  };
}

/** Sends a body as it is, so that tests can write numbers that no double holds. */
export async function askLedger(
  url: string,
  path: string,
  body?: string,
  headers: Headers = ADMIN,
): Promise<LedgerAnswer> {
  const response = await fetch(url + path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: body === undefined ? headers : { 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body }),
  });
  return { status: response.status, body: (await response.json()) as LedgerAnswer['body'] };
}

export async function openAccount(
  url: string,
  asset = 'USD',
  headers: Headers = ADMIN,
): Promise<string> {
  const answer = await askLedger(
    url,
    '/account',
    `{"category":"WALLET","asset":"${asset}"}`,
    headers,
  );
  if (answer.status !== 201) throw new Error(JSON.stringify(answer));
  return answer.body.id ?? '';
}

export interface Payment {
  readonly from: string;
  readonly to: string;
  /** As it stands in the JSON. */
  readonly amount?: string;
  readonly asset?: string;
  readonly sequence?: number;
  readonly policy?: string;
}

export function entryText(payment: Payment): string {
  const { from, to, amount = '100', asset = 'USD', sequence = 1, policy = 'NONE' } = payment;
  return (
    `{"sequence":${sequence},"type":"PAYMENT","asset":"${asset}","amount":${amount},` +
    `"debit":{"account_id":"${from}","balance_policy":"${policy}"},"credit":{"account_id":"${to}"}}`
  );
}

export function transactionText(...payments: readonly Payment[]): string {
  return `{"journal_entries":[${payments.map(entryText).join(',')}]}`;
}

export function pay(
  url: string,
  key: string,
  payment: Payment,
  headers: Headers = ADMIN,
): Promise<LedgerAnswer> {
  return askLedger(url, '/transaction', transactionText(payment), {
    ...headers,
    'idempotency-key': key,
  });
}

export async function balanceOf(url: string, account: string): Promise<string> {
  return (await askLedger(url, `/account/${account}`)).body.balance ?? 'none';
}

export async function newCredential(url: string, role = 'client'): Promise<Record<string, string>> {
  const { body } = await askLedger(url, '/credentials', JSON.stringify({ role }));
  return { 'x-api-key': String(body.api_key), 'x-api-secret': String(body.api_secret) };
}
