import { GatewayTarget } from './gateway-target.ts';
import { type Ending, Round, type RoundReport } from './round.ts';
import { ServerTarget } from './server-target.ts';
import type { Target } from './target.ts';

export const TARGETS = {
  gateway: () => new GatewayTarget(),
  server: () => new ServerTarget(),
} as const satisfies Record<string, () => Target>;

export interface RunOptions {
  readonly make: () => Target;
  readonly seed: number;
  readonly rounds: number;
  /** The program is drained and killed in turn, once in so many rounds. */
  readonly restartEvery: number;
  /** Plays this one round, `rounds` times. */
  readonly replay?: { readonly round: number; readonly visit: number | null };
  /** Ends the run after so many rounds in which something was wrong. */
  readonly maxFailures: number;
  readonly progress?: (report: RoundReport) => void;
}

export interface RunReport {
  readonly played: number;
  readonly failures: readonly RoundReport[];
  readonly probesMs: readonly number[];
  readonly rssBytes: readonly number[];
  readonly memory: string | null;
}

/** Plays the rounds one after the other. After a bad one the program starts afresh, on new data. */
export async function runRounds(options: RunOptions): Promise<RunReport> {
  const failures: RoundReport[] = [];
  const probesMs: number[] = [];
  const rssBytes: number[] = [];
  const nonce = process.pid.toString(36);
  let names = 0;
  const name = () => {
    names += 1;
    return `r${nonce}-${String(names).padStart(8, '0')}`;
  };
  let target = options.make();
  let played = 0;
  try {
    await target.start();
    for (; played < options.rounds && failures.length < options.maxFailures; played += 1) {
      const round = options.replay?.round ?? played;
      const ending = endingOf(round, options.restartEvery);
      const { seed } = options;
      const visit = options.replay?.visit ?? null;
      const report = await new Round(target, { seed, round, ending, visit, name }).play();
      probesMs.push(...report.probesMs);
      if (report.rssBytes > 0) rssBytes.push(report.rssBytes);
      options.progress?.(report);
      if (report.complaints.length === 0) continue;
      failures.push(report);
      await target.close();
      target = options.make();
      await target.start();
    }
  } finally {
    await target.close();
  }
  return { played, failures, probesMs, rssBytes, memory: growthIn(rssBytes) };
}

function endingOf(round: number, every: number): Ending {
  if (round % every !== every - 1) return 'goes on';
  return Math.floor(round / every) % 2 === 0 ? 'drain' : 'kill';
}

const MIB = 1_048_576;
/** Far above what the program needs for all that a round sends it. */
const MOST_BYTES = 512 * MIB;

/** What the memory says against the program, if anything. */
export function growthIn(rssBytes: readonly number[]): string | null {
  const most = Math.max(0, ...rssBytes);
  if (most > MOST_BYTES) return `it took ${Math.round(most / MIB)} MiB`;
  if (rssBytes.length < 100) return null;
  const quarter = Math.floor(rssBytes.length / 4);
  const early = percentile(rssBytes.slice(quarter, 2 * quarter), 0.5);
  const late = percentile(rssBytes.slice(-quarter), 0.5);
  if (late <= early * 1.5 + 32 * MIB) return null;
  return `it grew from ${Math.round(early / MIB)} to ${Math.round(late / MIB)} MiB`;
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

/** What a bad round looked like, and how to see it again. */
export function describeFailure(report: RoundReport, command: string): string {
  const { round, ending, complaints, visits } = report;
  const shown = complaints.slice(0, 12).map((complaint) => `  - ${complaint}`);
  const more = complaints.length > 12 ? [`  - and ${complaints.length - 12} more`] : [];
  const did = visits.map((about, index) => `  ${index}: ${about}`);
  const head = `round ${round} (${ending}), again with: ${command} --round ${round}`;
  return [head, ...shown, ...more, ' its visits; --visit N plays one alone:', ...did].join('\n');
}
