import type { Block } from '../blocks/block.ts';
import type { Request } from '../rules/request.ts';
import type { Outcome } from './outcome.ts';

/** One request on its way through the pipeline, and what to do at its end. */
export interface Ticket {
  readonly request: Request;
  /** The request as JSON. */
  readonly text: string;
  settle(outcome: Outcome, block: Block): void;
  /** The ledger has stopped: whether the request took effect is known only after it was opened again. */
  fail(error: unknown): void;
}
