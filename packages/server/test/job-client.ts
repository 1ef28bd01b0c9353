/** What a submission is answered with, whatever it was. */
export interface JobAck {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly replayed: string | null;
  readonly body: {
    readonly job_id?: string | null;
    readonly status?: string | number;
    readonly was_duplicate?: boolean;
    readonly original_job_id?: string | null;
    readonly idempotency_key?: string;
    readonly reason?: string;
    readonly type?: string;
    readonly retry?: string;
    readonly happened?: string;
    readonly detail?: string;
  };
}

export interface ShownJob {
  readonly job_id: string;
  readonly type: string;
  readonly status: string;
  readonly state: string;
  readonly attempts: number;
  readonly result: unknown;
  readonly error: string | null;
}

let sequences = 0;

export function newKey(client = 'host1.dc1:12345'): string {
  sequences += 1;
  return `${client}:${sequences}:a1b2c3d4e5f60718`;
}

export async function submitJob(
  url: string,
  key: string | null,
  job: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<JobAck> {
  const response = await fetch(`${url}/jobs`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(key === null ? {} : { 'idempotency-key': key }),
      ...headers,
    },
    body: JSON.stringify(job),
  });
  return {
    status: response.status,
    retryAfter: response.headers.get('retry-after'),
    replayed: response.headers.get('idempotency-replayed'),
    body: (await response.json()) as JobAck['body'],
  };
}

export async function getJson<T>(
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ status: number; body: T }> {
  const response = await fetch(url, { headers });
  return { status: response.status, body: (await response.json()) as T };
}

/** Looks until it is right, for half a minute at most. */
export async function until<T>(look: () => Promise<T>, isRight: (value: T) => boolean): Promise<T> {
  let value = await look();
  for (let tries = 0; tries < 600 && !isRight(value); tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    value = await look();
  }
  if (!isRight(value)) throw new Error(`still ${JSON.stringify(value)}`);
  return value;
}

export async function jobIs(url: string, id: string, state: string): Promise<ShownJob> {
  const { body } = await until(
    () => getJson<ShownJob>(`${url}/jobs/${id}`),
    (answer) => answer.body.state === state,
  );
  return body;
}
