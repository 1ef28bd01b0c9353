import {
  type Engine,
  type Execution,
  type OnceResult,
  OncewardError,
  type Revision,
} from 'onceward';
import { conclude, effectOf, operationOf } from './callers.ts';
import type { Call } from './judge/case-file.ts';
import { textOf } from './judge/outcome-text.ts';
import type { Simulation } from './simulation.ts';

/** A caller of `once`. It learns whether its value is recorded before it gets the value. */
export async function callOnce(
  simulation: Simulation,
  call: Call,
  engine: Engine,
): Promise<Execution | 'threw'> {
  const { id, ...operation } = operationOf(simulation, call);
  const { effect, policy, probe, signal } = operation;
  const run = effectOf(simulation, call);
  let fence = 0;
  let mark: OnceResult | null = null;
  const options = {
    ...id,
    effect,
    policy,
    input: call.arrival.input,
    ...(probe === undefined ? {} : { probe }),
    ...(signal === undefined ? {} : { signal }),
    onResult: (result: OnceResult) => {
      mark = result;
    },
  };
  const asked = engine.once(options, async (attempt) => {
    fence = attempt.fence;
    const settlement = await run(attempt);
    return 'outcome' in settlement ? textOf(settlement.outcome) : null;
  });
  const told = asked.then((value) => {
    if (mark !== null) return executionOf(call, value, mark, fence);
    simulation.judge.complain(
      'a value came without a mark that says whether it is kept',
      call.file,
    );
    throw new OncewardError('ONCE_NOT_RETAINED', 'no mark');
  });
  return conclude(simulation, call, told);
}

/** What `execute` would have said, made of what the caller of `once` was given. */
function executionOf(
  { file }: Call,
  value: string | null,
  { replayed, recorded, attempt, keptUntil }: OnceResult,
  fence: Revision,
): Execution {
  const text = JSON.stringify(value);
  const outcome = { contentType: 'application/json', bytes: new TextEncoder().encode(text) };
  if (!replayed) {
    const settlement = { as: 'committed', outcome } as const;
    return { kind: 'executed', settlement, attempt, fence, recorded, keptUntil };
  }
  const owner = file.settled.findLast((fact) => fact.outcome === text)?.owner ?? 'nobody';
  const unsaid = { settledAt: 0, replayCount: 1 };
  const state = 'committed';
  return { kind: 'replayed', state, outcome, attempt, keptUntil: keptUntil ?? 0, owner, ...unsaid };
}
