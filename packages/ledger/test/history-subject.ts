import fc from 'fast-check';
import { PowerCutDisk } from 'onceward/testing';
import { expect } from 'vitest';
import { EmbeddedLog } from '../src/log/embedded-log.ts';
import type { LedgerOptions } from '../src/open-ledger.ts';
import { recover } from '../src/recover.ts';
import type { OperationInput } from '../src/rules/check-operations.ts';
import { AccountTable } from '../src/state/account-table.ts';
import { MemoryHome } from '../src/state/memory-home.ts';
import {
  CALLER,
  makeAccounts,
  openTestLedger,
  type TestClock,
  type TestLedger,
  testClock,
  text,
  transferBody,
  uuid,
} from './manual-ledger.ts';
import { Model } from './model.ts';
import type { ModelRequest, ModelTransaction, ModelWrite } from './model-request.ts';

const ACCOUNTS = 4;
const DIRECTORY = '/ledger';
const SETTINGS = {
  idempotencyTtlMs: 10_000,
  idempotencyCleanupMs: 1_000,
  clientTtlMs: 20_000,
  evictionInterval: 3,
  // So few that pages are forgotten and read back all the time.
  workingSetRows: 4,
};

export type Step =
  | { readonly do: 'round'; readonly requests: readonly ModelRequest[] }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'checkpoint' | 'close' | 'crash' }
  | { readonly do: 'lose'; readonly parts: readonly ('state' | 'snapshot' | 'history')[] }
  | { readonly do: 'damage'; readonly part: 'state' | 'history'; readonly roll: number }
  | { readonly do: 'other settings' }
  | { readonly do: 'change'; readonly keyTtlMs: number; readonly rollsBack: boolean };

export const transaction: fc.Arbitrary<ModelTransaction> = fc
  .record({
    credential: fc.constantFrom('ak_shop', 'ak_bank'),
    key: fc.constantFrom('k1', 'k2', 'k3', 'k4', 'k5', 'k6', 'k7', 'k8'),
    pair: fc.constantFrom([0, 1], [1, 2], [2, 3], [3, 0], [1, 0]),
    amount: fc.oneof(fc.bigInt(1n, 50n), fc.bigInt(2n ** 60n, 2n ** 70n)),
    mustStayPositive: fc.boolean(),
  })
  .map(({ pair, ...rest }) => {
    const [from, to] = pair as [number, number];
    return { kind: 'transaction', from, to, ...rest };
  });

export const write: fc.Arbitrary<ModelWrite> = fc.record({
  kind: fc.constant('write' as const),
  vault: fc.boolean(),
  client: fc.constantFrom('app', 'job'),
  key: fc.integer({ min: 1, max: 12 }),
  sequence: fc.option(fc.bigInt(1n, 6n), { nil: undefined }),
  entities: fc.array(
    fc.record({
      name: fc.constantFrom('a', 'b', 'c'),
      value: fc.constantFrom('x', 'y'),
      onlyIfNew: fc.boolean(),
      livesMs: fc.constantFrom(undefined, undefined, 5_000),
    }),
    { minLength: 1, maxLength: 3 },
  ),
});

export const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('round' as const),
      requests: fc.array(fc.oneof(transaction, write), { minLength: 1, maxLength: 5 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.nat(12_000) }) },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom(...(['checkpoint', 'close', 'crash'] as const))
      .map((what) => ({ do: what })),
  },
);

/** A ledger on a disk that can lose power, with the model beside it. */
export class Subject {
  readonly world: TestClock = testClock();
  readonly home = new MemoryHome();
  readonly rollsBack: boolean;
  readonly options: LedgerOptions;
  disk = new PowerCutDisk();
  ledger!: TestLedger;
  model!: Model;
  accounts: string[] = [];
  organization = '';
  vault = '';

  constructor(rollsBack: boolean, options: LedgerOptions = {}) {
    this.rollsBack = rollsBack;
    this.options = options;
  }

  async begin(): Promise<void> {
    await this.open();
    this.accounts = await makeAccounts(this.ledger, ACCOUNTS);
    this.organization = idOf(await this.ledger.createOrganization(CALLER, { name: 'acme' }));
    const { organization } = this;
    this.vault = idOf(await this.ledger.createVault(CALLER, { organization, name: 'main' }));
    const { height } = this.ledger.getTip().header;
    const { idempotencyTtlMs: keyTtlMs, idempotencyCleanupMs: cleanupMs, ...rest } = SETTINGS;
    const settings = { keyTtlMs, cleanupMs, ...rest, rollsBack: this.rollsBack };
    this.model = new Model(settings, ACCOUNTS, { height, at: this.world.now() });
  }

  /** The first opening makes the settings; later ones leave them to the ledger. */
  async open(others: LedgerOptions = {}): Promise<void> {
    const homes = { directory: DIRECTORY, home: this.home, world: this.world };
    const { workingSetRows, ...machine } = SETTINGS;
    const databaseConflict = this.rollsBack ? 'rollback' : 'reject_duplicate';
    const made = this.model === undefined ? { ...machine, databaseConflict } : {};
    this.ledger = await openTestLedger({ ...homes, fileSystem: this.disk }, {
      ...made,
      workingSetRows,
      ...this.options,
      ...others,
    } as LedgerOptions);
  }

  async take(step: Step): Promise<void> {
    switch (step.do) {
      case 'wait':
        this.world.advance(step.ms);
        return;
      case 'checkpoint':
        return this.ledger.checkpoint();
      case 'round': {
        const expected = this.model.round(this.world.now(), step.requests);
        const sent = step.requests.map((request) => this.send(request));
        expect(await Promise.all(sent)).toEqual(expected);
        return;
      }
      case 'change': {
        const { keyTtlMs, rollsBack } = step;
        const databaseConflict = rollsBack ? 'rollback' : 'reject_duplicate';
        await this.ledger.changeSettings(CALLER, { idempotencyTtlMs: keyTtlMs, databaseConflict });
        this.model.change(this.world.now(), { keyTtlMs, rollsBack });
        return;
      }
      case 'other settings':
        await this.ledger.close();
        this.disk = this.disk.restart();
        await expect(this.open({ clientTtlMs: 1 })).rejects.toThrow(/ledger-settings --apply/);
        return this.#reopen();
      default:
        if (step.do !== 'crash') await this.ledger.close();
        if (step.do === 'damage') this.#damage(step);
        if (step.do === 'lose') for (const part of step.parts) this.home.lose(part);
        return this.#reopen();
    }
  }

  /** Blocks that the log no longer gives cannot be made again, so those are left alone. */
  #damage({ part, roll }: { part: 'state' | 'history'; roll: number }): void {
    if (part === 'state') this.home.damageState(roll);
    else if (this.home.snapshotHeight() === 0) this.home.damageBlock(roll);
  }

  async #reopen(): Promise<void> {
    this.disk = this.disk.restart();
    await this.open();
    this.model.restart(this.world.now());
  }

  async send(request: ModelRequest): Promise<string> {
    if (request.kind === 'transaction') {
      const { credential, key, amount, mustStayPositive } = request;
      const [from, to] = [this.accounts[request.from], this.accounts[request.to]] as [
        string,
        string,
      ];
      const policy = mustStayPositive ? 'ALWAYS_POSITIVE' : 'NONE';
      const body = transferBody({ from, to, amount, policy });
      const result = await this.ledger.transact({ actor: 'client:x', credential }, key, body);
      return result.ok ? 'ok' : [result.code, result.layer].filter(Boolean).join(' ');
    }
    const { client: clientId, sequence, vault } = request;
    const result = await this.ledger.write(CALLER, {
      organization: this.organization,
      vault: vault ? this.vault : null,
      clientId,
      ...(sequence !== undefined && { sequence }),
      idempotencyKey: uuid(request.key),
      operations: this.#operations(request),
    });
    if (result.ok) return `ok ${result.assignedSequence}`;
    if (result.code === 'SEQUENCE_GAP') return `${result.code} ${result.lastCommittedSequence}`;
    if (result.code === 'ALREADY_COMMITTED') return `${result.code} ${result.assignedSequence}`;
    return result.code;
  }

  /** The lifetime is part of what the client asks for; when it ends is not, or no retry would equal its first. */
  #operations({ entities }: ModelWrite): OperationInput[] {
    return entities.map(({ name, value, onlyIfNew, livesMs }) => ({
      setEntity: {
        key: name,
        value: text(value),
        ...(onlyIfNew && { condition: { notExists: true as const } }),
        ...(livesMs !== undefined && { expiresAt: this.world.now() + livesMs }),
      },
    }));
  }

  async compare(): Promise<void> {
    const { ledger, model, organization } = this;
    expect(this.accounts.map((id) => ledger.reads.account(id)?.balance)).toEqual(model.balances);
    for (const vault of [true, false]) {
      const scope = { organization, vault: vault ? this.vault : null };
      for (const client of ['app', 'job']) {
        const last = model.clients.get(`${vault} ${client}`)?.last ?? 0n;
        expect(ledger.reads.clientState(scope, client)).toBe(last);
      }
      for (const name of ['a', 'b', 'c']) {
        const value = ledger.reads.entity(scope, name)?.value;
        const expected = model.entity(`${vault} ${name}`, Math.max(model.time, this.world.now()));
        expect(value && Buffer.from(value).toString()).toBe(expected);
      }
    }
    expect(ledger.getTip().header.height).toBe(model.height);
    expect(await ledger.integrity()).toMatchObject({ ok: true });
  }

  /** A second ledger that learns everything from the log, and from the snapshot where the log was trimmed. */
  async compareWithReplica(): Promise<void> {
    const tip = this.ledger.getTip();
    await this.ledger.close();
    const log = await EmbeddedLog.open({ directory: DIRECTORY, fileSystem: this.disk });
    const accountPages = [...this.home.accountPages()];
    const rowPages = [...this.home.rowPages()];
    this.home.lose('state');
    const isWhole = log.firstIndex === 1;
    const replica = await recover(isWhole ? new MemoryHome() : this.home, log);
    expect(replica.book.tip).toEqual(tip);
    const { accounts, rows } = replica.machine;
    const saved = new AccountTable();
    // The top is a hash of every byte of every account.
    expect(saved.restore(accountPages, accounts.count)).toBe(accounts.top);
    const texts = [...rows.takeDirtyPages()].sort(([a], [b]) => a - b);
    if (isWhole) expect(texts.map(([, page]) => page)).toEqual(rowPages);
    await log.close();
  }
}

function idOf(result: { ok: boolean }): string {
  return (result as unknown as { id: string }).id;
}
