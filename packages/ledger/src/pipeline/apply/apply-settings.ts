import type { SettingsRequest } from '../../rules/request.ts';
import type { Machine } from '../machine.ts';
import type { Outcome } from '../outcome.ts';
import { transactionText } from './transaction-text.ts';

/** From the next request on. The change is a transaction like any other: its block has who made it and when. */
export function applySettings(
  machine: Machine,
  { settings, notes_raise }: SettingsRequest,
  requestText: string,
  texts: string[],
): Outcome {
  const position = texts.length;
  if (notes_raise === true) machine.noteRaise(settings);
  machine.adopt({ ...settings, hash_key: machine.settings.hash_key });
  texts.push(transactionText(machine.height, position, requestText, '"status":"committed"'));
  return { did: 'change', position };
}
