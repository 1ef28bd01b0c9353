import type { BatchEntry, LogEntry } from '../../log/log-entry.ts';
import type { JournalRequest, Request } from '../../rules/request.ts';
import type { Machine } from '../machine.ts';
import type { Applied, Outcome } from '../outcome.ts';
import { applyCreation } from './apply-creation.ts';
import { applyTransactions } from './apply-journal.ts';
import { applySettings } from './apply-settings.ts';
import { applyWrite } from './apply-write.ts';
import { evict } from './evict.ts';

/**
 * Brings the machine from one log entry to the next. Depends on the machine and the entry alone: no clock, no
 * chance, no environment, no order that is not the entry's own. Every rule is decided here, so whatever reached
 * the log twice, late or by a mistaken leader is harmless.
 */
export function applyEntry(machine: Machine, entry: LogEntry): Applied {
  if (entry.index !== machine.height + 1) {
    throw new Error(`Entry ${entry.index} cannot follow entry ${machine.height}.`);
  }
  machine.height = entry.index;
  machine.term = entry.term;
  machine.answered = entry.answered;
  machine.time = Math.max(machine.time, entry.at);
  const texts: string[] = [];
  const outcomes = entry.kind === 'barrier' ? [] : applyBatch(machine, entry, texts);
  if (entry.kind === 'barrier' && entry.settings !== undefined) machine.adopt(entry.settings);
  const { idempotency_ttl_ms, client_ttl_ms } = machine.settings;
  machine.window.forget(machine.time, idempotency_ttl_ms);
  // A key is known to the last millisecond of its client.
  machine.receipts.forget(machine.time, client_ttl_ms + 1);
  if (machine.height % machine.settings.eviction_interval === 0) evict(machine);
  return { height: machine.height, at: machine.time, outcomes, texts };
}

function applyBatch(machine: Machine, entry: BatchEntry, texts: string[]): Outcome[] {
  if (entry.kind === 'transactions') {
    const requests = entry.requests as readonly JournalRequest[];
    return applyTransactions(machine, requests, entry.texts, texts);
  }
  const outcomes: Outcome[] = [];
  for (let at = 0; at < entry.requests.length; at += 1) {
    const text = entry.texts[at] as string;
    outcomes.push(applyOne(machine, entry.requests[at] as Request, text, texts));
  }
  return outcomes;
}

function applyOne(machine: Machine, request: Request, text: string, texts: string[]): Outcome {
  switch (request.kind) {
    case 'write':
      return applyWrite(machine, request, text, texts);
    case 'journal':
      return applyTransactions(machine, [request], [text], texts)[0] as Outcome;
    case 'settings':
      return applySettings(machine, request, text, texts);
    default:
      return applyCreation(machine, request, text, texts);
  }
}
