import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { BlockBook } from '../src/blocks/block-book.ts';
import { type BatchEntry, decodeEntry, encodeEntry, type LogEntry } from '../src/log/log-entry.ts';
import { applyEntry } from '../src/pipeline/apply/apply.ts';
import { Machine } from '../src/pipeline/machine.ts';
import { sealBlock } from '../src/pipeline/seal.ts';
import type { JournalRequest, Request } from '../src/rules/request.ts';
import { requestText } from '../src/rules/request-text.ts';
import { DEFAULT_SETTINGS, machineSettings } from '../src/settings.ts';
import { MemoryHome } from '../src/state/memory-home.ts';

function newMachine() {
  const book = new BlockBook(new MemoryHome());
  const machine = new Machine();
  const feed = (entry: LogEntry) => {
    const applied = applyEntry(machine, entry);
    book.add(sealBlock(machine, applied, book.tipHash));
    return applied.outcomes;
  };
  const settings = machineSettings(DEFAULT_SETTINGS, 'secret');
  feed({ kind: 'barrier', index: 1, term: 1, at: 1_000, answered: 0, settings });
  feed(batch(2, 'writes', [account(), account()]));
  return { machine, book, feed };
}

function account(): Request {
  return { kind: 'account', actor: 'system:test', category: 'WALLET', asset: 'USD' };
}

function payment(key: string, amount = '5'): JournalRequest {
  const side = (number: number) => ({
    account_id: `acct_${number}`,
    balance_policy: 'NONE' as const,
  });
  return {
    kind: 'journal',
    actor: 'client:shop',
    credential: 'ak_shop',
    key,
    entries: [{ sequence: 1, type: 'PAY', asset: 'USD', amount, debit: side(0), credit: side(1) }],
  };
}

function batch(
  index: number,
  kind: BatchEntry['kind'],
  requests: Request[],
  at = 1_000,
): BatchEntry {
  return { kind, index, term: 1, at, answered: 0, requests, texts: requests.map(requestText) };
}

describe('applying an entry', () => {
  it('[L2] refuses the second of two equal keys in one batch, and only that', () => {
    const { machine, feed } = newMachine();
    const outcomes = feed(batch(3, 'transactions', [payment('a'), payment('a'), payment('b')]));
    expect(outcomes).toMatchObject([
      { did: 'post' },
      { did: 'refuse', refusal: { code: 'DUPLICATE_IDEMPOTENCY_KEY', layer: 'batch' } },
      { did: 'post' },
    ]);
    expect(machine.accounts.read(1)?.balance).toBe(10n);
  });

  it('[L7] keeps the key of a payment that named an account which does not exist', () => {
    const { machine, feed } = newMachine();
    const [entry] = payment('a').entries;
    const astray = { ...entry, debit: { account_id: 'acct_9', balance_policy: 'NONE' } };
    const request = { ...payment('a'), entries: [astray] } as JournalRequest;
    expect(feed(batch(3, 'transactions', [request]))).toMatchObject([
      { did: 'reject', refusal: { code: 'ACCOUNT_NOT_FOUND' } },
    ]);
    expect(feed(batch(4, 'transactions', [payment('a')]))).toMatchObject([{ did: 'refuse' }]);
    expect(machine.accounts.read(1)?.balance).toBe(0n);
  });

  it('never lets time fall, whatever the clocks of leaders say', () => {
    const { book, feed } = newMachine();
    feed(batch(3, 'transactions', [payment('a')], 5_000));
    feed(batch(4, 'transactions', [payment('b')], 2_000));
    expect(book.tip?.header.at).toBe(5_000);
  });

  it('does not take an entry out of turn', () => {
    const { feed } = newMachine();
    expect(() => feed(batch(4, 'transactions', [payment('a')]))).toThrow(/cannot follow/);
  });

  it('gives the same blocks from entries that went through the log as text', () => {
    const direct = newMachine();
    const viaText = newMachine();
    for (const [at, key] of ['a', 'b"\\', 'é', 'a'].entries()) {
      const entry = batch(3 + at, 'transactions', [payment(key), payment(`${key}!`)]);
      direct.feed(entry);
      viaText.feed(decodeEntry(encodeEntry(entry)));
    }
    expect(viaText.book.tip).toEqual(direct.book.tip);
  });

  it('writes a transaction as JSON.stringify would', () => {
    const request = payment('quote " backslash \\ end', '123');
    expect(requestText(request)).toBe(JSON.stringify(request));
    const two = { ...request, entries: [...request.entries, ...request.entries] };
    expect(requestText(two)).toBe(JSON.stringify(two));
  });
});

describe('everything that applying runs', () => {
  /** Whatever differs from one machine, run or moment to another. */
  const WORLDLY = new RegExp(
    [
      'Date|performance|process|Intl|localeCompare|toLocale\\w+',
      'Math\\.random|randomBytes|randomUUID|getRandomValues',
      'setTimeout|setImmediate|setInterval|queueMicrotask|await|async',
      'for\\s*\\(\\s*const\\s+\\w+\\s+in',
    ]
      .map((names) => `\\b(?:${names})\\b`)
      .join('|'),
  );

  it('knows no clock, no chance, no environment and no waiting', () => {
    const seen = new Set<string>();
    const visit = (url: URL) => {
      if (seen.has(url.href)) return;
      seen.add(url.href);
      const source = readFileSync(url, 'utf8');
      const code = source.replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '');
      expect(`${url.pathname} ${WORLDLY.exec(code)?.[0] ?? 'is pure'}`).toMatch(/ is pure$/);
      for (const [, type, path] of code.matchAll(/import (type )?[^;]*?from '(\.[^']+)'/g)) {
        if (type === undefined) visit(new URL(path as string, url));
      }
    };
    visit(new URL('../src/pipeline/apply/apply.ts', import.meta.url));
    visit(new URL('../src/pipeline/seal.ts', import.meta.url));
    expect(seen.size).toBeGreaterThan(15);
  });
});
