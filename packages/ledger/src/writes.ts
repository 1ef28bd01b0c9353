import { type Block, proveTransaction } from './blocks/block.ts';
import type { BlockBook } from './blocks/block-book.ts';
import type { LedgerCounters } from './counters.ts';
import {
  admitBatch,
  admitOrganization,
  admitVault,
  admitWrite,
  type BatchWriteInput,
  type Caller,
  checkCaller,
  type OrganizationInput,
  type VaultInput,
  type WriteInput,
} from './pipeline/admit.ts';
import { findCreation } from './pipeline/apply/apply-creation.ts';
import { findRepeat } from './pipeline/apply/apply-write.ts';
import type { ClientRow } from './pipeline/apply/client-row.ts';
import { clientKey } from './pipeline/apply/row-keys.ts';
import type { Machine } from './pipeline/machine.ts';
import type { KeptAnswer, NearTier } from './pipeline/near-tier.ts';
import type { Outcome } from './pipeline/outcome.ts';
import type { Pipeline } from './pipeline/pipeline.ts';
import { type Checked, type Refusal, refuse, type WriteProof } from './refusal.ts';
import type { OrganizationRequest, VaultRequest, WriteRequest } from './rules/request.ts';
import { locate, transactionId } from './rules/transaction-id.ts';
import {
  changeableSettings,
  checkSettings,
  DEFAULT_SETTINGS,
  type MachineSettings,
  settingsOf,
} from './settings.ts';
import type { Location } from './state/key-table.ts';
import { answerCreation, OVERLOADED } from './transactions.ts';

export interface WriteOptions {
  /** Adds the block's header, the transaction's text and the proof that it is in the block. */
  readonly includeTxProof?: boolean;
}

export interface WriteSuccess extends Partial<WriteProof> {
  readonly ok: true;
  readonly txId: string;
  readonly blockHeight: number;
  readonly assignedSequence: bigint;
}

export type WriteResult = WriteSuccess | Refusal;
export type ChangeResult = { readonly ok: true; readonly blockHeight: number } | Refusal;
export type CreateResult = { readonly ok: true; readonly id: string } | Refusal;

interface Running {
  readonly hash: string;
  readonly answer: Promise<KeptAnswer | Refusal>;
}

/** The admission and the answers of sequenced writes. */
export class Writes {
  readonly #pipeline: Pipeline;
  readonly #machine: Machine;
  readonly #book: BlockBook;
  readonly #near: NearTier;
  readonly #counters: LedgerCounters;
  readonly #running = new Map<string, Running>();

  constructor(
    pipeline: Pipeline,
    machine: Machine,
    book: BlockBook,
    near: NearTier,
    counters: LedgerCounters,
  ) {
    this.#pipeline = pipeline;
    this.#machine = machine;
    this.#book = book;
    this.#near = near;
    this.#counters = counters;
  }

  write(caller: Caller, input: WriteInput, options: WriteOptions = {}): Promise<WriteResult> {
    return this.#admit(caller, () => admitWrite(caller, input), options);
  }

  /** One client, one scope, one sequence: all of the writes happen or none. */
  batchWrite(
    caller: Caller,
    input: BatchWriteInput,
    options: WriteOptions = {},
  ): Promise<WriteResult> {
    return this.#admit(caller, () => admitBatch(caller, input), options);
  }

  createOrganization(caller: Caller, input: OrganizationInput): Promise<CreateResult> {
    return this.#create(caller, () => admitOrganization(caller, input));
  }

  createVault(caller: Caller, input: VaultInput): Promise<CreateResult> {
    return this.#create(caller, () => admitVault(caller, input));
  }

  async changeSettings(caller: Caller, changes: Partial<MachineSettings>): Promise<ChangeResult> {
    const wrong = checkCaller(caller);
    if (wrong !== undefined) return wrong;
    const held = settingsOf(this.#machine.settings);
    const settings = changeableSettings(
      checkSettings({ ...DEFAULT_SETTINGS, ...held, ...changes }),
    );
    return new Promise((resolve, reject) => {
      this.#pipeline.submit(
        'writes',
        { kind: 'settings', actor: caller.actor, settings, notes_raise: true },
        {
          settle: (_, { header }) => resolve({ ok: true, blockHeight: header.height }),
          fail: reject,
        },
      );
    });
  }

  async #create(
    caller: Caller,
    admit: () => Checked<OrganizationRequest | VaultRequest>,
  ): Promise<CreateResult> {
    const wrong = checkCaller(caller);
    if (wrong !== undefined) return wrong;
    if (this.#pipeline.isFull) return OVERLOADED;
    const admitted = admit();
    if (!admitted.ok) return admitted;
    const known = findCreation(this.#machine, admitted.value);
    if (known !== undefined) return answerCreation(known);
    return new Promise((resolve, reject) => {
      this.#pipeline.submit('writes', admitted.value, {
        settle: (outcome) => resolve(answerCreation(outcome)),
        fail: reject,
      });
    });
  }

  async #admit(
    caller: Caller,
    admit: () => Checked<WriteRequest>,
    options: WriteOptions,
  ): Promise<WriteResult> {
    const wrong = checkCaller(caller);
    if (wrong !== undefined) return wrong;
    const admitted = admit();
    if (!admitted.ok) return admitted;
    const answer = await this.#once(admitted.value);
    return 'ok' in answer ? this.#refuse(answer, options) : this.#succeed(answer, options);
  }

  /**
   * Near tier, then what is running, then the state as it is applied; only what none of them knows goes to the
   * log.
   */
  #once(request: WriteRequest): KeptAnswer | Refusal | Promise<KeptAnswer | Refusal> {
    const client = clientKey(request.organization, request.vault, request.client);
    const row = this.#machine.rows.read<ClientRow>(client);
    const near = this.#near.find(client, request.key);
    // An answer whose client was evicted since is as forgotten as the client.
    if (near !== undefined && near.sequence <= BigInt(row?.sequence ?? 0)) {
      this.#counters.repeats.near += 1;
      return near.hash === request.hash ? near : KEY_REUSED;
    }
    const name = `${request.key} ${client}`;
    const running = this.#running.get(name);
    if (running !== undefined) {
      this.#counters.repeats.near += 1;
      return running.hash === request.hash ? running.answer : KEY_REUSED;
    }
    const repeat = findRepeat(this.#machine, client, row, request);
    if (repeat !== undefined) {
      this.#counters.repeats.replicated += 1;
      return repeat;
    }
    if (this.#pipeline.isFull) return OVERLOADED;
    const answer = this.#run(request, client).finally(() => this.#running.delete(name));
    this.#running.set(name, { hash: request.hash, answer });
    return answer;
  }

  #run(request: WriteRequest, client: string): Promise<KeptAnswer | Refusal> {
    return new Promise((resolve, reject) => {
      this.#pipeline.submit('writes', request, {
        settle: (outcome, block) => resolve(this.#answer(request, client, outcome, block)),
        fail: reject,
      });
    });
  }

  #answer(
    request: WriteRequest,
    client: string,
    outcome: Outcome,
    block: Block,
  ): KeptAnswer | Refusal {
    if (outcome.did === 'refuse') {
      this.#counters.refused += 1;
      return outcome.refusal;
    }
    if (outcome.did !== 'write') throw new Error(`A write ended as ${outcome.did}.`);
    this.#counters.writes += 1;
    const { position, sequence } = outcome;
    const answer = { hash: request.hash, sequence, height: block.header.height, position };
    this.#near.keep(client, request.key, answer);
    return answer;
  }

  #succeed({ height, position, sequence }: KeptAnswer, options: WriteOptions): WriteSuccess {
    const success: WriteSuccess = {
      ok: true,
      txId: transactionId({ height, position }),
      blockHeight: height,
      assignedSequence: sequence,
    };
    return options.includeTxProof === true
      ? { ...success, ...this.#prove({ height, position }) }
      : success;
  }

  /** Who asks for proof of a write does so of one that was committed before, too. */
  #refuse(refusal: Refusal, options: WriteOptions): Refusal {
    if (options.includeTxProof !== true || refusal.committedTxId === undefined) return refusal;
    const place = locate(refusal.committedTxId);
    const proof = place && this.#prove(place);
    return proof === undefined ? refusal : { ...refusal, proof };
  }

  #prove({ height, position }: Location): WriteProof | undefined {
    const block = this.#readBlock(height);
    const transaction = block?.texts[position];
    if (block === undefined || transaction === undefined) return undefined;
    return { blockHeader: block.header, transaction, txProof: proveTransaction(block, position) };
  }

  /** The write is committed, whatever has become of its block since: without it there is no proof, and no failure. */
  #readBlock(height: number): Block | undefined {
    try {
      return this.#book.block(height);
    } catch {
      return undefined;
    }
  }
}

const KEY_REUSED = refuse(
  'IDEMPOTENCY_KEY_REUSED',
  'This idempotency key was used for other operations. A new write needs a new key.',
);
