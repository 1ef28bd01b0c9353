import { hash } from 'node:crypto';
import { checkKey } from 'onceward/keys';
import { LIMITS } from '../limits.ts';
import { type Checked, type Refusal, refuse } from '../refusal.ts';
import { ACTOR_CLAIMED, type Actor, checkActor, claimsActor } from '../rules/actor.ts';
import { checkOperations, type OperationInput } from '../rules/check-operations.ts';
import { checkAccount, checkJournal, type JournalEntry } from '../rules/journal.ts';
import type { Operation } from '../rules/operation.ts';
import type {
  AccountRequest,
  CreationKey,
  JournalRequest,
  OrganizationRequest,
  VaultRequest,
  WriteRequest,
} from '../rules/request.ts';
import { type SentForm, sentForm } from '../rules/sent-form.ts';
import { findAccountFault } from './apply/post.ts';
import type { Machine } from './machine.ts';

/** Who asks, as authentication found. */
export interface Caller {
  readonly actor: Actor;
  /** Whose idempotency keys are meant: the public part of the credential, never the secret. */
  readonly credential: string;
}

export interface WriteInput {
  readonly organization: string;
  readonly vault?: string | null;
  readonly clientId: string;
  /** Left out: the ledger assigns the next one. */
  readonly sequence?: bigint;
  /** The 16 bytes of a UUID of version 4. */
  readonly idempotencyKey: Uint8Array;
  /** When it was first sent, if the caller says so: what may have been forgotten since is refused as `KEY_EXPIRED`. */
  readonly firstSentAt?: number;
  readonly operations: readonly OperationInput[];
}

export interface BatchWriteInput extends Omit<WriteInput, 'operations'> {
  readonly writes: readonly { readonly operations: readonly OperationInput[] }[];
}

export interface OrganizationInput {
  readonly name: string;
  /** The 16 bytes of a UUID of version 4. */
  readonly idempotencyKey?: Uint8Array;
  readonly firstSentAt?: number;
}

export interface VaultInput extends OrganizationInput {
  readonly organization: string;
}

const MAX_SEQUENCE = 2n ** 64n - 1n;
const CREDENTIAL = /^[\x21-\x7e]{1,200}$/;

export function checkCaller({ actor, credential }: Caller): Refusal | undefined {
  const checked = checkActor(actor);
  if (!checked.ok) return checked;
  if (CREDENTIAL.test(credential)) return undefined;
  const message = 'The credential must be 1 to 200 printable characters without spaces.';
  return refuse('INVALID_FIELD', message);
}

export function checkTransactionKey(key: string | undefined): Refusal | undefined {
  if (key === undefined || key === '') {
    return refuse('IDEMPOTENCY_KEY_REQUIRED', 'A transaction needs an Idempotency-Key.');
  }
  return findKeyFault(key);
}

function findKeyFault(key: string): Refusal | undefined {
  const checked = checkKey('ledger', key);
  if (checked.ok) return undefined;
  return refuse('IDEMPOTENCY_KEY_INVALID', `The Idempotency-Key is not valid: ${checked.reason}.`);
}

export function admitTransaction(
  machine: Machine,
  { actor, credential }: Caller,
  key: string,
  body: unknown,
  firstSentAt?: number,
): Checked<JournalRequest> {
  const checked = checkJournal(body);
  if (!checked.ok) return checked;
  for (const entry of checked.value) {
    const fault = findAccountFault(machine, entry);
    if (fault !== undefined) return fault;
  }
  const sent = sentForm(body, checked.value);
  const names = { actor, credential, key, firstSentAt };
  return { ok: true, value: new AdmittedJournal(names, sent, checked.value) };
}

/** A class for the reason that `Ticket` is one. */
class AdmittedJournal implements JournalRequest {
  readonly kind = 'journal';
  readonly actor: Actor;
  readonly credential: string;
  readonly key: string;
  declare readonly first_sent?: number;
  readonly sent: SentForm;
  readonly entries: readonly JournalEntry[];

  constructor(
    {
      actor,
      credential,
      key,
      firstSentAt,
    }: Caller & { key: string; firstSentAt?: number | undefined },
    sent: SentForm,
    entries: readonly JournalEntry[],
  ) {
    this.actor = actor;
    this.credential = credential;
    this.key = key;
    if (firstSentAt !== undefined) this.first_sent = firstSentAt;
    this.sent = sent;
    this.entries = entries;
  }
}

export function admitAccount(
  { actor, credential }: Caller,
  body: unknown,
  key?: string,
  firstSentAt?: number,
): Checked<AccountRequest> {
  const wrong = key === undefined ? undefined : findKeyFault(key);
  if (wrong !== undefined) return wrong;
  const checked = checkAccount(body);
  if (!checked.ok) return checked;
  const owned = key === undefined ? {} : { credential, key, ...sentAt(firstSentAt) };
  return { ok: true, value: { kind: 'account', actor, ...owned, ...checked.value } };
}

function sentAt(firstSentAt: number | undefined): { readonly first_sent?: number } {
  return firstSentAt === undefined ? {} : { first_sent: firstSentAt };
}

export function admitOrganization(
  caller: Caller,
  input: OrganizationInput,
): Checked<OrganizationRequest> {
  const wrong = findNameFault(input) ?? findUnusableKey(input);
  if (wrong !== undefined) return wrong;
  const { actor } = caller;
  const { name } = input;
  return { ok: true, value: { kind: 'organization', actor, ...keyIn(caller, input), name } };
}

export function admitVault(caller: Caller, input: VaultInput): Checked<VaultRequest> {
  const wrong = findNameFault(input) ?? findUnusableKey(input);
  if (wrong !== undefined) return wrong;
  const { actor } = caller;
  const { organization, name } = input;
  const value: VaultRequest = { kind: 'vault', actor, ...keyIn(caller, input), organization, name };
  return { ok: true, value };
}

function findUnusableKey({ idempotencyKey }: OrganizationInput): Refusal | undefined {
  return idempotencyKey === undefined ? undefined : findUuidFault(idempotencyKey);
}

function keyIn(
  { credential }: Caller,
  { idempotencyKey, firstSentAt }: OrganizationInput,
): CreationKey {
  if (idempotencyKey === undefined) return {};
  const key = Buffer.from(idempotencyKey).toString('hex');
  return { credential, key, ...sentAt(firstSentAt) };
}

export function admitWrite({ actor }: Caller, input: WriteInput): Checked<WriteRequest> {
  const checked = checkOperations(input.operations);
  if (!checked.ok) return checked;
  return finishWrite(actor, input, checked.value, checked.value);
}

export function admitBatch({ actor }: Caller, input: BatchWriteInput): Checked<WriteRequest> {
  if (input.writes.length === 0) return refuse('INVALID_FIELD', 'writes must not be empty.');
  const writes: (readonly Operation[])[] = [];
  for (let at = 0; at < input.writes.length; at += 1) {
    const checked = checkOperations((input.writes[at] as { operations: [] }).operations);
    if (!checked.ok) return refuse(checked.code, `writes[${at}].${checked.message}`);
    writes.push(checked.value);
  }
  const operations = writes.flat();
  if (operations.length > LIMITS.operations) {
    const limit = `the limit is ${LIMITS.operations}`;
    return refuse('TOO_LARGE', `writes hold ${operations.length} operations together; ${limit}.`);
  }
  return finishWrite(actor, input, operations, writes);
}

function finishWrite(
  actor: Actor,
  input: Omit<WriteInput, 'operations'>,
  operations: readonly Operation[],
  payload: unknown,
): Checked<WriteRequest> {
  if (claimsActor(input)) return ACTOR_CLAIMED;
  const { organization, vault = null, clientId: client, sequence, idempotencyKey } = input;
  const wrong =
    findClientFault(client) ?? findSequenceFault(sequence) ?? findUuidFault(idempotencyKey);
  if (wrong !== undefined) return wrong;
  if (!isId(organization) || (vault !== null && !isId(vault))) {
    return refuse('INVALID_FIELD', 'organization and vault must be ids that the ledger gave.');
  }
  const text = JSON.stringify(payload);
  if (text.length > LIMITS.requestBytes) {
    const limit = `the limit is ${LIMITS.requestBytes}`;
    return refuse('TOO_LARGE', `The operations take ${text.length} bytes; ${limit}.`);
  }
  const value: WriteRequest = {
    kind: 'write',
    actor,
    organization,
    vault,
    client,
    sequence: sequence === undefined ? null : sequence.toString(),
    key: Buffer.from(idempotencyKey).toString('hex'),
    ...sentAt(input.firstSentAt),
    hash: hash('sha256', text, 'hex'),
    operations,
  };
  return { ok: true, value };
}

function isId(id: unknown): boolean {
  return typeof id === 'string' && /^[a-z0-9_]{1,64}$/.test(id);
}

export function findClientFault(client: unknown): Refusal | undefined {
  const isGood =
    typeof client === 'string' &&
    client.length >= 1 &&
    client.length <= LIMITS.clientIdLength &&
    client.isWellFormed();
  if (isGood) return undefined;
  return refuse('INVALID_FIELD', `clientId must be 1 to ${LIMITS.clientIdLength} characters.`);
}

function findSequenceFault(sequence: bigint | undefined): Refusal | undefined {
  if (sequence === undefined) return undefined;
  if (typeof sequence === 'bigint' && sequence >= 1n && sequence <= MAX_SEQUENCE) return undefined;
  return refuse('INVALID_FIELD', 'sequence must be from 1 to 2^64 - 1, or be left out.');
}

function findUuidFault(key: Uint8Array): Refusal | undefined {
  const isUuid =
    key instanceof Uint8Array &&
    key.length === 16 &&
    (key[6] as number) >> 4 === 4 &&
    (key[8] as number) >> 6 === 2;
  if (isUuid) return undefined;
  const message = 'idempotencyKey must be the 16 bytes of a UUID of version 4.';
  return refuse('IDEMPOTENCY_KEY_INVALID', message);
}

function findNameFault(input: { readonly name: string }): Refusal | undefined {
  if (claimsActor(input)) return ACTOR_CLAIMED;
  const { name } = input;
  const isGood =
    typeof name === 'string' &&
    name.trim() !== '' &&
    name.length <= LIMITS.nameLength &&
    name.isWellFormed();
  if (isGood) return undefined;
  return refuse('INVALID_FIELD', `name must be 1 to ${LIMITS.nameLength} characters.`);
}
