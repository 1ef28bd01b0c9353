import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

const DIGITS = 32;

/** Whose request it is: who sent none of these headers is anonymous. Only their digest is kept. */
export function scopeOf(request: IncomingMessage, names: readonly string[]): string {
  let material = '';
  for (const name of names) {
    const value = request.headers[name.toLowerCase()];
    if (value === undefined) continue;
    const text = typeof value === 'string' ? value : value.join(', ');
    material += `${name.length}:${name}=${text.length}:${text};`;
  }
  return material === '' ? 'anonymous' : hash('sha256', material, 'hex').slice(0, DIGITS);
}
