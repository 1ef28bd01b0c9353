import { type Engine, OncewardError, type Verdict } from 'onceward';
import type { CaseFile } from './judge/case-file.ts';
import { outcomeOf } from './judge/outcome-text.ts';
import { attemptOf } from './judge/transition-rules.ts';
import type { PlannedEvent } from './plan.ts';
import type { Simulation } from './simulation.ts';

type OperatorEvent = Extract<PlannedEvent, { kind: 'operator' }>;

/** A person at the console. A careful one checks the world before resolving a doubt; a careless one does not. */
export async function operate(
  simulation: Simulation,
  engine: Engine,
  event: OperatorEvent,
): Promise<void> {
  const file = simulation.judge.files[event.operation]!;
  const { id } = file.operation;
  const actor = { by: 'operator', reason: 'asked to' };
  try {
    if (event.action === 'extend') await engine.extend(id, event.keepMs, actor);
    else if (event.action === 'purge') {
      const settled = simulation.table.get(id)?.record.state;
      // Purging a running or doubtful operation lets it run again, knowingly.
      if (settled !== 'committed' && settled !== 'rejected') file.tainted = true;
      if (event.careless || !file.tainted) await engine.purge(id, actor);
    } else {
      const as = verdictOf(simulation, file, event);
      if (as === null) return;
      const outcome = outcomeOf('by the operator', 0);
      await engine.resolve(id, { ...actor, as, outcome, keepMs: event.keepMs });
    }
  } catch (error) {
    if (error instanceof OncewardError) return;
    simulation.judge.complain(`unexpected ${String(error)}`, file);
  }
}

function verdictOf(
  simulation: Simulation,
  file: CaseFile,
  event: OperatorEvent,
): Verdict['as'] | null {
  if (event.careless) {
    file.tainted = true;
    return event.keepMs === 500 ? 'void' : 'committed';
  }
  const current = simulation.table.get(file.operation.id);
  const attempt = current === null ? undefined : attemptOf(file, current);
  if (current === null || attempt === undefined) return null;
  if (attempt.happened > 0) return 'committed';
  if (file.hasHappened(attempt.life) || file.mayHappen(attempt.life)) return null;
  return event.keepMs === 5_000 ? 'rejected' : 'void';
}
