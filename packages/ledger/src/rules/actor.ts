import { LIMITS } from '../limits.ts';
import { type Checked, refuse } from '../refusal.ts';

/** Who asks, as authentication found: never taken from a request. */
export type Actor = `user:${string}` | `client:${string}` | `system:${string}`;

const ACTOR = /^(user|client|system):[\x21-\x7e]+$/;

export function checkActor(actor: string): Checked<Actor> {
  if (actor.length <= LIMITS.actorLength && ACTOR.test(actor)) {
    return { ok: true, value: actor as Actor };
  }
  return refuse(
    'INVALID_FIELD',
    'The actor must be user:{id}, client:{id} or system:{name}, printable and without spaces.',
  );
}

/** A request that names an actor of its own tries to impersonate another. */
export function claimsActor(input: object): boolean {
  return 'actor' in input && (input as { actor?: unknown }).actor !== undefined;
}

export const ACTOR_CLAIMED = refuse(
  'ACTOR_NOT_ALLOWED',
  'The actor comes from the credential and cannot be sent with a request.',
);
