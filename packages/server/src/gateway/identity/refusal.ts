import type { ProfileName } from 'onceward';
import { type HttpAnswer, type ProblemName, problemAnswer } from 'onceward/http';

/** Why a request with a key is not let in. Nothing was run, whichever it is. */
export interface IdentityRefusal {
  readonly name: Extract<
    ProblemName,
    'scope-unknown' | 'unauthorized' | 'forbidden' | 'identity-unusable' | 'identity-unavailable'
  >;
  readonly detail: string;
  /** Values of WWW-Authenticate. */
  readonly challenges?: readonly string[];
  /** For the operator's log alone. */
  readonly cause?: unknown;
}

export function refusalAnswer(
  refusal: IdentityRefusal,
  profile: ProfileName,
  key: string,
): HttpAnswer {
  const { name, detail, challenges = [] } = refusal;
  const retry = name === 'identity-unavailable' ? { retryAfterMs: 1_000 } : {};
  const answer = problemAnswer(name, profile, { detail, key, ...retry });
  const challenged = challenges.flatMap((challenge) => ['www-authenticate', challenge]);
  return { ...answer, headers: [...answer.headers, ...challenged] };
}
