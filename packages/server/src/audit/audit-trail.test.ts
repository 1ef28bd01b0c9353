import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AuditLine } from 'onceward';
import { afterAll, describe, expect, it } from 'vitest';
import { AuditTrail } from './audit-trail.ts';

const root = mkdtempSync(join(tmpdir(), 'onceward-audit-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let folders = 0;
const newFolder = () => join(root, String((folders += 1)));

function line(key: string): AuditLine {
  return {
    at: 1,
    action: 'purge',
    scope: 's',
    key,
    by: 'ak_1',
    reason: 'r',
    from: 'committed',
    to: 'absent',
  };
}

describe('[H16] the audit trail', () => {
  it('holds every line after it was opened again, newest first', async () => {
    const folder = newFolder();
    const first = await AuditTrail.open(folder);
    await Promise.all(['a', 'b', 'c'].map((key) => first.append(line(key))));
    await first.close();
    const second = await AuditTrail.open(folder);
    await second.append(line('d'));
    const { lines } = await second.latest(3);
    expect(lines.map((entry) => 'key' in entry && entry.key)).toEqual(['d', 'c', 'b']);
    await second.close();
  });

  it('finds lines across the pieces it reads, however long they are', async () => {
    const trail = await AuditTrail.open(newFolder());
    const keys = Array.from({ length: 300 }, (_, index) => `${index}-${'é'.repeat(400)}`);
    await Promise.all(keys.map((key) => trail.append(line(key))));
    const { lines } = await trail.latest(1_000);
    expect(lines.map((entry) => 'key' in entry && entry.key)).toEqual(keys.toReversed());
    await trail.close();
  });

  it('drops a line that a crash cut short', async () => {
    const folder = newFolder();
    const first = await AuditTrail.open(folder);
    await first.append(line('whole'));
    await first.close();
    appendFileSync(join(folder, 'audit.jsonl'), '{"at":1,"acti');
    const second = await AuditTrail.open(folder);
    await second.append(line('next'));
    expect(await second.latest(10)).toEqual({ lines: [line('next'), line('whole')], damaged: 0 });
    await second.close();
  });

  it('begins a new file when the old one is long, and deletes nothing', async () => {
    const folder = newFolder();
    const trail = await AuditTrail.open(folder, 200);
    for (const key of ['a', 'b', 'c', 'd', 'e']) await trail.append(line(key));
    await trail.close();
    const names = readdirSync(folder);
    expect(names.length).toBeGreaterThan(1);
    const all = names.map((name) => readFileSync(join(folder, name), 'utf8')).join('');
    expect(all.trim().split('\n')).toHaveLength(5);
  });

  it('rejects a line that it cannot write', async () => {
    const folder = newFolder();
    const trail = await AuditTrail.open(folder);
    await trail.close();
    await expect(trail.append(line('late'))).rejects.toThrow('audit.jsonl');
  });

  it('cannot be opened where a file is in the way', async () => {
    const path = newFolder();
    writeFileSync(path, '');
    await expect(AuditTrail.open(path)).rejects.toThrow();
  });
});
