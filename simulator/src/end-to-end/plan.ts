/** How often things go wrong, as probabilities for each request, write or call. */
export interface Rates {
  readonly lostRequest: number;
  readonly lostAnswer: number;
  /** The request is held up on its way for longer than the client waits. */
  readonly lateRequest: number;
  readonly storageFails: number;
  readonly noticeLost: number;
  readonly storeRequestLost: number;
  readonly storeReplyLost: number;
  /** The upstream turns requests away with 429 or 503, or fails with 500 before it has acted. */
  readonly turnedAway: number;
  readonly redirected: number;
  readonly connectionRefused: number;
  readonly silentBefore: number;
  readonly silentAfter: number;
  readonly resetBefore: number;
  readonly resetAfter: number;
  readonly refreshFails: number;
  /** `auth.headers()` of the application never answers. */
  readonly credentialsHang: number;
  /** Something before the servers, which knows no keys, says 403 or 404. */
  readonly atTheDoor: number;
}

export type IntentionKind = 'plain' | 'group' | 'job' | 'write';

/** Something that a user wants to happen once. */
export interface PlannedIntention {
  readonly name: string;
  readonly kind: IntentionKind;
  readonly user: string;
  readonly lane: string;
  readonly at: number;
  readonly steps: number;
  /** The server says no to the last step. */
  readonly refused: boolean;
  /** The answer is too long to be kept. */
  readonly long: boolean;
  /** It is first asked for with an address to which nothing can be sent; a group names what no answer has. */
  readonly unsendable: boolean;
  /** When it is changed or taken back, after it was queued. */
  readonly editAfterMs: number | null;
  readonly cancelAfterMs: number | null;
  /** How often it is tried again after it failed. */
  readonly retries: number;
}

export type PlannedEvent =
  | { readonly kind: 'kill'; readonly at: number; readonly who: ProcessName; readonly ms: number }
  | { readonly kind: 'open tab'; readonly at: number }
  | { readonly kind: 'offline'; readonly at: number; readonly ms: number }
  | { readonly kind: 'store down'; readonly at: number; readonly ms: number }
  | { readonly kind: 'upstream down'; readonly at: number; readonly ms: number }
  | { readonly kind: 'clock'; readonly at: number; readonly who: ProcessName; readonly ms: number }
  | { readonly kind: 'token expires'; readonly at: number }
  | { readonly kind: 'pause'; readonly at: number; readonly ms: number }
  | { readonly kind: 'sign in'; readonly at: number; readonly user: string }
  | { readonly kind: 'verdicts'; readonly at: number }
  | { readonly kind: 'ledger loses'; readonly at: number; readonly what: 'state' | 'history' };

export type ProcessName = 'tab' | 'gateway 0' | 'gateway 1' | 'server' | 'writer';

/** One seed as data: what is wanted, what goes wrong. Taking something out leaves a world that can be lived through. */
export interface EndToEndPlan {
  readonly seed: number;
  readonly profile: 'http' | 'sync' | 'stripe';
  readonly gateways: number;
  /** What keeps two tabs from sending at the same time. `none`: nothing, and lanes have no order then. */
  readonly locks: 'web' | 'lease' | 'none';
  /** How many tabs are open at first. */
  readonly tabs: number;
  readonly leaseMs: number;
  readonly upstreamTimeoutMs: number;
  /** How long an effect takes at most. */
  readonly slowestEffectMs: number;
  /** How long the application takes at most to give credentials, or to get new ones. */
  readonly slowestCredentialsMs: number;
  /** How long the servers keep an answer. */
  readonly keepMs: number;
  /** How long the device counts on it. */
  readonly windowMs: number;
  /** The device is put away, as a laptop is closed, for longer than the servers remember. */
  readonly away: { readonly at: number; readonly ms: number } | null;
  readonly rates: Rates;
  readonly intentions: readonly PlannedIntention[];
  readonly events: readonly PlannedEvent[];
}

/** For so long everything that can go wrong may. Then the world heals, and everything must come to its end. */
export const STORM_MS = 60_000;
