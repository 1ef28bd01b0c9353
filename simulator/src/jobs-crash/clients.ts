import { setTimeout as sleep } from 'node:timers/promises';

/** What one client learnt about one of its keys. */
export interface Submitted {
  readonly key: string;
  readonly type: 'again' | 'once';
  /** The job of every acknowledgement that arrived; all must be the same. */
  readonly jobIds: Set<string>;
  /** Answers that no submission should get. */
  readonly oddities: string[];
}

interface Answer {
  readonly status: number;
  readonly body: { readonly job_id?: string; readonly type?: string };
}

/** While the killing goes on a client may have to be patient; after it, this is patience enough. */
const GIVE_UP_MS = 120_000;
/** The answers when the processes behind are dead: retry. */
const COME_AGAIN = new Set([409, 429, 500, 502, 503]);

/**
 * Submits one job after another until stopped, each with a key of its own, and repeats each until it is
 * acknowledged, at whichever gate: then now and then once more, to see that the answer stays.
 */
export async function runClient(
  name: string,
  gates: readonly { readonly url: string }[],
  random: () => number,
  isOver: () => boolean,
): Promise<Submitted[]> {
  const all: Submitted[] = [];
  for (let sequence = 1; !isOver(); sequence += 1) {
    const submitted: Submitted = {
      key: `${name}:${sequence}:00000000deadbeef`,
      type: random() < 0.5 ? 'again' : 'once',
      jobIds: new Set(),
      oddities: [],
    };
    all.push(submitted);
    const anyGate = () => gates[Math.floor(random() * gates.length)]!.url;
    const isAcknowledged = await submitUntilAcknowledged(submitted, anyGate, isOver);
    if (!isAcknowledged) submitted.oddities.push(`no acknowledgement in ${GIVE_UP_MS} ms`);
    else if (random() < 0.3) await submitUntilAcknowledged(submitted, anyGate, isOver);
    await sleep(random() * 20);
  }
  return all;
}

async function submitUntilAcknowledged(
  submitted: Submitted,
  anyGate: () => string,
  isOver: () => boolean,
): Promise<boolean> {
  let limit = performance.now() + GIVE_UP_MS;
  while (performance.now() < limit) {
    if (!isOver()) limit = performance.now() + GIVE_UP_MS;
    const answer = await submitOnce(anyGate(), submitted);
    if (answer !== null && answer.status === 202) {
      submitted.jobIds.add(String(answer.body.job_id));
      return true;
    }
    if (answer !== null && !COME_AGAIN.has(answer.status)) {
      submitted.oddities.push(`${answer.status} ${answer.body.type ?? ''}`);
    }
    await sleep(50);
  }
  return false;
}

/** `null`: nobody answered. */
async function submitOnce(gate: string, { key, type }: Submitted): Promise<Answer | null> {
  try {
    const response = await fetch(`${gate}/jobs`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify({ type, payload: { key } }),
      signal: AbortSignal.timeout(20_000),
    });
    return { status: response.status, body: (await response.json()) as Answer['body'] };
  } catch {
    return null;
  }
}
