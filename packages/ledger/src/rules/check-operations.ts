import { LIMITS } from '../limits.ts';
import { type Checked, type Refusal, refuse } from '../refusal.ts';
import { checkJournal } from './journal.ts';
import type { Condition, Operation } from './operation.ts';

export interface SetEntity {
  readonly key: string;
  readonly value: Uint8Array;
  readonly condition?: ConditionInput;
  /** Milliseconds since the epoch; from then on the entity is as good as absent. */
  readonly expiresAt?: number;
}

export type ConditionInput =
  | { readonly notExists: true }
  | { readonly mustExist: true }
  | { readonly version: number | bigint | string }
  | { readonly valueEquals: Uint8Array };

export interface Relationship {
  readonly resource: string;
  readonly relation: string;
  readonly subject: string;
}

/** A journal posting inside a write: as an entry of a transaction, without sequence and type. */
export interface Posting {
  readonly asset: string;
  readonly amount: bigint | number | string;
  readonly debit: { readonly account_id: string; readonly balance_policy?: string };
  readonly credit: { readonly account_id: string; readonly balance_policy?: string };
}

export type OperationInput =
  | { readonly setEntity: SetEntity }
  | { readonly deleteEntity: { readonly key: string; readonly condition?: ConditionInput } }
  | { readonly createRelationship: Relationship }
  | { readonly deleteRelationship: Relationship }
  | { readonly post: Posting };

/** Brings operations into the form that is kept, or says which one is wrong and why. */
export function checkOperations(inputs: readonly OperationInput[]): Checked<readonly Operation[]> {
  if (inputs.length === 0) return invalid('operations', 'must hold at least one operation');
  if (inputs.length > LIMITS.operations) {
    const limit = `the limit is ${LIMITS.operations}`;
    return refuse('TOO_LARGE', `operations holds ${inputs.length} operations; ${limit}.`);
  }
  const operations: Operation[] = [];
  for (let at = 0; at < inputs.length; at += 1) {
    const checked = checkOperation(inputs[at] as OperationInput, `operations[${at}]`);
    if (!checked.ok) return checked;
    operations.push(checked.value);
  }
  return { ok: true, value: operations };
}

function checkOperation(input: OperationInput, place: string): Checked<Operation> {
  if (typeof input !== 'object' || input === null || Object.keys(input).length !== 1) {
    return invalid(place, 'must be exactly one kind of operation');
  }
  if ('setEntity' in input) return checkSet(input.setEntity, `${place}.setEntity`);
  if ('deleteEntity' in input) {
    return checkDelete(input.deleteEntity, `${place}.deleteEntity`);
  }
  if ('createRelationship' in input)
    return checkRelation('relate', input.createRelationship, place);
  if ('deleteRelationship' in input) {
    return checkRelation('unrelate', input.deleteRelationship, place);
  }
  if ('post' in input) return checkPosting(input.post, place);
  return invalid(place, 'is not a kind of operation that the ledger knows');
}

function checkSet(input: SetEntity, place: string): Checked<Operation> {
  const { key, value, condition, expiresAt } = input;
  const wrong = findFault(key, `${place}.key`);
  if (wrong) return wrong;
  if (!(value instanceof Uint8Array)) return invalid(`${place}.value`, 'must be bytes');
  if (value.length > LIMITS.valueBytes) {
    const limit = `the limit is ${LIMITS.valueBytes}`;
    return refuse('TOO_LARGE', `${place}.value has ${value.length} bytes; ${limit}.`);
  }
  if (expiresAt !== undefined && !(Number.isSafeInteger(expiresAt) && expiresAt > 0)) {
    return invalid(`${place}.expiresAt`, 'must be milliseconds since the epoch');
  }
  const checked = condition && checkCondition(condition, `${place}.condition`);
  if (checked && !checked.ok) return checked;
  const operation: Operation = {
    op: 'set',
    key,
    value: toBase64(value),
    ...(checked && { condition: checked.value }),
    ...(expiresAt !== undefined && { expires_at: expiresAt }),
  };
  return { ok: true, value: operation };
}

function checkDelete(
  { key, condition }: { readonly key: string; readonly condition?: ConditionInput },
  place: string,
): Checked<Operation> {
  const wrong = findFault(key, `${place}.key`);
  if (wrong) return wrong;
  const checked = condition && checkCondition(condition, `${place}.condition`);
  if (checked && !checked.ok) return checked;
  return { ok: true, value: { op: 'delete', key, ...(checked && { condition: checked.value }) } };
}

function checkCondition(input: ConditionInput, place: string): Checked<Condition> {
  if (Object.keys(input).length !== 1) return invalid(place, 'must be exactly one condition');
  if ('notExists' in input && input.notExists === true) {
    return { ok: true, value: { not_exists: true } };
  }
  if ('mustExist' in input && input.mustExist === true) {
    return { ok: true, value: { must_exist: true } };
  }
  if ('version' in input) {
    const text = String(input.version);
    const version = /^(0|[1-9][0-9]{0,15})$/.test(text) ? Number(text) : Number.NaN;
    if (Number.isSafeInteger(version)) return { ok: true, value: { version } };
    return invalid(`${place}.version`, 'must be the version of an entity, as a read gives it');
  }
  if ('valueEquals' in input && input.valueEquals instanceof Uint8Array) {
    return { ok: true, value: { value_equals: toBase64(input.valueEquals) } };
  }
  return invalid(place, 'must be notExists, mustExist, version or valueEquals');
}

function checkRelation(
  op: 'relate' | 'unrelate',
  { resource, relation, subject }: Relationship,
  place: string,
): Checked<Operation> {
  for (const [name, text] of Object.entries({ resource, relation, subject })) {
    const wrong = findFault(text, `${place}.${name}`);
    if (wrong) return wrong;
  }
  return { ok: true, value: { op, resource, relation, subject } };
}

function checkPosting(input: Posting, place: string): Checked<Operation> {
  const entry = { ...input, sequence: 1, type: 'POST' };
  const checked = checkJournal({ journal_entries: [entry] });
  if (!checked.ok) {
    return refuse(checked.code, checked.message.replace('journal_entries[0]', `${place}.post`));
  }
  const [{ asset, amount, debit, credit }] = checked.value as [(typeof checked.value)[number]];
  return { ok: true, value: { op: 'post', asset, amount, debit, credit } };
}

/** Keys and the parts of a relationship are free text, as long as UTF-8 can carry it. */
function findFault(text: unknown, place: string): Refusal | undefined {
  if (typeof text !== 'string' || text === '') return invalid(place, 'must not be empty');
  if (!text.isWellFormed()) return invalid(place, 'holds half of a surrogate pair');
  if (Buffer.byteLength(text) <= LIMITS.keyBytes) return undefined;
  return refuse('TOO_LARGE', `${place} is longer than ${LIMITS.keyBytes} bytes.`);
}

function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64');
}

function invalid(place: string, why: string): Refusal {
  return refuse('INVALID_FIELD', `${place} ${why}.`);
}
