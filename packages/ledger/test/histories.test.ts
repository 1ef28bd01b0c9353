import fc from 'fast-check';
import { PowerCutDisk } from 'onceward/testing';
import { describe, expect, it } from 'vitest';
import { EmbeddedLog } from '../src/log/embedded-log.ts';
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

type Step =
  | { readonly do: 'round'; readonly requests: readonly ModelRequest[] }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'checkpoint' | 'close' | 'crash' };

const transaction: fc.Arbitrary<ModelTransaction> = fc
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

const write: fc.Arbitrary<ModelWrite> = fc.record({
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

const step: fc.Arbitrary<Step> = fc.oneof(
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
class Subject {
  readonly world: TestClock = testClock();
  readonly home = new MemoryHome();
  readonly rollsBack: boolean;
  disk = new PowerCutDisk();
  ledger!: TestLedger;
  model!: Model;
  accounts: string[] = [];
  organization = '';
  vault = '';

  constructor(rollsBack: boolean) {
    this.rollsBack = rollsBack;
  }

  async begin(): Promise<void> {
    await this.open();
    this.accounts = await makeAccounts(this.ledger, ACCOUNTS);
    this.organization = idOf(await this.ledger.createOrganization(CALLER, { name: 'acme' }));
    const { organization } = this;
    this.vault = idOf(await this.ledger.createVault(CALLER, { organization, name: 'main' }));
    const { height } = this.ledger.getTip().header;
    const { idempotencyTtlMs: keyTtlMs, clientTtlMs, evictionInterval } = SETTINGS;
    const settings = { keyTtlMs, clientTtlMs, evictionInterval, rollsBack: this.rollsBack };
    this.model = new Model(settings, ACCOUNTS, height);
  }

  async open(): Promise<void> {
    const homes = { directory: DIRECTORY, home: this.home, world: this.world };
    this.ledger = await openTestLedger(
      { ...homes, fileSystem: this.disk },
      { ...SETTINGS, databaseConflict: this.rollsBack ? 'rollback' : 'reject_duplicate' },
    );
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
      default:
        if (step.do === 'close') await this.ledger.close();
        this.disk = this.disk.restart();
        await this.open();
        this.model.restart(this.world.now());
    }
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
        const expected = model.entity(`${vault} ${name}`, this.world.now());
        expect(value && Buffer.from(value).toString()).toBe(expected);
      }
    }
    expect(ledger.getTip().header.height).toBe(model.height);
    expect(await ledger.integrity()).toMatchObject({ ok: true });
  }

  /** A second ledger that learns everything from the log alone. */
  async compareWithReplica(): Promise<void> {
    const home = new MemoryHome();
    const tip = this.ledger.getTip();
    await this.ledger.close();
    const log = await EmbeddedLog.open({ directory: DIRECTORY, fileSystem: this.disk });
    const { recover } = await import('../src/recover.ts');
    const replica = await recover(home, log);
    expect(replica.book.tip).toEqual(tip);
    const { accounts, rows } = replica.machine;
    const saved = new AccountTable();
    // The top is a hash of every byte of every account.
    expect(saved.restore(this.home.accountPages(), accounts.count)).toBe(accounts.top);
    const texts = [...rows.takeDirtyPages()].sort(([a], [b]) => a - b);
    expect(texts.map(([, page]) => page)).toEqual([...this.home.rowPages()]);
    await log.close();
  }
}

function idOf(result: { ok: boolean }): string {
  return (result as unknown as { id: string }).id;
}

/**
 * Entities that expire are retried at another moment with other bytes, which is another request: keep those
 * apart.
 */
function withoutLifetimes(step: Step): Step {
  if (step.do !== 'round') return step;
  const requests = step.requests.map((request) =>
    request.kind === 'write'
      ? {
          ...request,
          entities: request.entities.map((entity) => ({ ...entity, livesMs: undefined })),
        }
      : request,
  );
  return { ...step, requests };
}

const TIMEOUT_MS = 120_000;

describe('any history of writes, retries, duplicates, gaps, batches, evictions and restarts', () => {
  it(
    '[L2] [S3] [S4] [S5] [S7] agrees with the model, and a replica agrees byte for byte',
    async () => {
      const history = fc.record({
        rollsBack: fc.boolean(),
        steps: fc.array(step.map(withoutLifetimes), { minLength: 5, maxLength: 40 }),
      });
      await fc.assert(
        fc.asyncProperty(history, async ({ rollsBack, steps }) => {
          const subject = new Subject(rollsBack);
          await subject.begin();
          for (const next of steps) await subject.take(next);
          await subject.compare();
          await subject.compareWithReplica();
        }),
        { numRuns: Number(process.env.LEDGER_HISTORIES ?? 25) },
      );
    },
    TIMEOUT_MS,
  );

  it(
    '[S2] entities that expire are absent for reads and conditions alike',
    async () => {
      const steps = fc.array(
        fc.oneof(
          {
            weight: 3,
            arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.nat(4_000) }),
          },
          {
            weight: 5,
            arbitrary: write.map((request) => ({
              do: 'round' as const,
              requests: [{ ...request, sequence: undefined }],
            })),
          },
        ),
        { minLength: 5, maxLength: 25 },
      );
      await fc.assert(
        fc.asyncProperty(steps, async (list) => {
          const subject = new Subject(true);
          await subject.begin();
          let key = 100;
          for (const next of list) {
            // Every write has a key of its own: this history has no retries.
            if (next.do === 'wait') await subject.take(next);
            else {
              const requests = next.requests.map((request) => ({ ...request, key: (key += 1) }));
              await subject.take({ do: 'round', requests });
            }
          }
          await subject.compare();
          await subject.ledger.close();
        }),
        { numRuns: 15 },
      );
    },
    TIMEOUT_MS,
  );
});
