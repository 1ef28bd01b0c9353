import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { Admission } from 'onceward/http';
import type { Visit } from '../api/visit.ts';
import type { BufferBudget } from './buffer-budget.ts';
import { type ExchangeParts, GatewayExchange } from './gateway-exchange.ts';
import {
  declaredLength,
  type ReadBody,
  readBody,
  refuseBody,
  resumed,
  tooSlow,
} from './request-body.ts';
import type { Rules } from './route-table.ts';

export interface ManagedParts extends ExchangeParts {
  readonly requestBudget: BufferBudget;
}

export interface ManagedRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly visit: Visit;
  readonly target: string;
  readonly rules: Rules;
  readonly admission: Admission<IncomingMessage>;
}

const NOTHING = new Uint8Array(0);

/**
 * Takes a request with a key to its end. What it holds of the budgets it gives back, in whichever order its ends come:
 *
 *   its body     when the client leaves before all of it is here, or else when the operation has ended
 *   its answer   when the operation has ended and the answer is out, or the client has left
 */
export async function protect(parts: ManagedParts, managed: ManagedRequest): Promise<void> {
  const { request, response, visit, rules, admission } = managed;
  const { guard, settings } = rules;
  const share = parts.requestBudget.open();
  try {
    const limit = guard.settings.maxBodyBytes;
    const body = await readBody(request, visit, { limit, minRate: settings.minBodyRate, share });
    if (body.kind === 'aborted') return;
    if (body.kind === 'slow') throw tooSlow(settings.minBodyRate);
    const whole = body.kind === 'whole';
    const refused = !whole && settings.mode === 'enforce';
    if (refused) refuseBody(request, response);
    const exchange = new GatewayExchange(parts, {
      request,
      response,
      visit,
      target: managed.target,
      body: refused ? NOTHING : forwardable(body),
      settings,
      maxKeptBytes: guard.settings.maxKeptBytes,
      keepStreams: guard.settings.streams === 'keep',
    });
    try {
      exchange.finish(await guard.protect(admission, whole ? body.bytes : 'too_large', exchange));
    } finally {
      exchange.dispose();
    }
  } finally {
    share.release();
  }
}

type Sendable = Extract<ReadBody, { kind: 'whole' | 'over' }>;

function forwardable(body: Sendable): Uint8Array | Readable {
  return body.kind === 'whole' ? body.bytes : Readable.from(resumed(body), { objectMode: false });
}

/** A body that is known to be refused need not be sent at all. */
export function isHopeless({ request, rules }: Pick<ManagedRequest, 'request' | 'rules'>): boolean {
  if (rules.settings.mode !== 'enforce') return false;
  return (declaredLength(request) ?? 0) > rules.guard.settings.maxBodyBytes;
}
