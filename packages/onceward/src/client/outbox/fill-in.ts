import { isSuccess, type Step, type StoredRequest } from './operation.ts';
import { invalid } from './request-intake.ts';

const BLANK = /\{\{(?:(\d+)\.([\w.-]+)|!)\}\}/g;

/**
 * Text of a group's request that is to be sent as it is, though it may hold what looks like a placeholder: for
 * whatever a user has typed. `{{!}}` stands for `{{`.
 */
export function literal(text: string): string {
  return text.replaceAll('{{', '{{!}}');
}

/**
 * Lets a step of a group use what an earlier one answered: `{{0.order_id}}` in the address or the body stands
 * for the member `order_id` of the JSON answer of step 0. Answers are stored, so every attempt is the same.
 * Throws where there is nothing to fill in, because that answer was cut off, too long or something else.
 */
export function fillIn(request: StoredRequest, steps: readonly Step[]): StoredRequest {
  const asJson = /\bjson\b/.test(request.headers['content-type'] ?? '');
  const fill = (text: string, encode: (value: string) => string) =>
    text.replace(BLANK, (blank, step?: string, path = '') => {
      if (step === undefined) return '{{';
      const value = lookUp(steps[Number(step)], path.split('.'));
      if (value === null) throw invalid(`no earlier answer has ${blank}`);
      return encode(value);
    });
  return {
    ...request,
    url: fill(request.url, encodeURIComponent),
    body:
      request.body === null || request.bodyEncoding === 'base64'
        ? request.body
        : fill(request.body, asJson ? (value) => JSON.stringify(value).slice(1, -1) : String),
  };
}

function lookUp(step: Step | undefined, path: readonly string[]): string | null {
  let value: unknown;
  try {
    value = step?.answer && isSuccess(step.answer) && JSON.parse(step.answer.body ?? '');
  } catch {
    return null;
  }
  for (const name of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return null;
    value = (value as Record<string, unknown>)[name];
  }
  return typeof value === 'object' ? null : String(value);
}
