import type { Block } from '../blocks/block.ts';
import type { Request } from '../rules/request.ts';
import type { Outcome } from './outcome.ts';

/** Called when a request has ended, one way or the other. */
export interface TicketEnd {
  settle(outcome: Outcome, block: Block): void;
  /** The ledger has stopped: whether the request took effect is known only after it was opened again. */
  fail(error: unknown): void;
}

/**
 * One request in the pipeline.
 *
 * A class, and not an object literal: after a burst that kept thousands waiting, V8 takes literals from the same
 * line for long-lived and makes them, with all they refer to, in the old generation. Instances of classes it
 * always makes young.
 */
export class Ticket {
  readonly request: Request;
  /** The request as JSON. */
  readonly text: string;
  readonly end: TicketEnd;

  constructor(request: Request, text: string, end: TicketEnd) {
    this.request = request;
    this.text = text;
    this.end = end;
  }
}
