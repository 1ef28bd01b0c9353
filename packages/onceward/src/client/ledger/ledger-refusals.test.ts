import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { LEDGER_REFUSALS, type LedgerRefusalCode } from '../../refusals/ledger-refusals.ts';
import { memoryStorage } from '../storages/memory.ts';
import { judgeAnswer } from '../verdict.ts';
import { LedgerClient } from './ledger-client.ts';
import { LedgerWriter } from './ledger-writer.ts';

const CODES = Object.keys(LEDGER_REFUSALS) as LedgerRefusalCode[];
const PAGE = new URL('../../../../../docs/reference/ledger.md', import.meta.url);

describe('a refusal of the ledger', () => {
  it.each(CODES)('[E16] %s is in the reference with its meaning', (code) => {
    const { status, retry, happened } = LEDGER_REFUSALS[code];
    const row = `| \`${code}\` | ${status} | ${retry} | ${happened} |`;
    expect(readFileSync(PAGE, 'utf8')).toContain(row);
  });

  it('[E16] is in the reference only if there is one', () => {
    const table = readFileSync(PAGE, 'utf8').split('## Refusals')[1] ?? '';
    const named = [...table.matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, code]) => code);
    expect(named).toEqual(CODES);
  });

  it.each(CODES)('[C14] [E16] %s means to the outbox what the table says', (code) => {
    const { status, retry, happened } = LEDGER_REFUSALS[code];
    const text = JSON.stringify({ error: { code, message: 'm', retry, happened } });
    const headers = new Headers({ 'content-type': 'application/json; charset=utf-8' });
    const verdict = judgeAnswer({ status, headers, text }, 0);
    if (happened === 'no') {
      expect(verdict).toMatchObject(
        retry === 'same_key' ? { kind: 'transient', ran: 'no' } : { kind: 'refused' },
      );
    } else {
      expect(verdict).toMatchObject(
        retry === 'same_key' ? { kind: 'transient', ran: 'unknown' } : { kind: 'in_doubt' },
      );
    }
  });

  /** Those two make the writer read the ledger's position, and send again. */
  const ENDS = CODES.filter((code) => code !== 'SEQUENCE_GAP' && code !== 'ALREADY_COMMITTED');

  it.each([...ENDS, 'WORD_OF_A_NEWER_LEDGER'])(
    '[C14] [E16] %s means to the writer what the table says',
    async (code) => {
      const client = new LedgerClient({
        url: 'http://ledger.example',
        headers: () => ({}),
        fetch: async (input) => {
          const isWrite = String(input).endsWith('WriteService/Write');
          const answer = isWrite
            ? { error: { code, message: 'm' } }
            : { lastCommittedSequence: '0' };
          return new Response(JSON.stringify(answer));
        },
      });
      const stream = { organization: 'org_1_0', clientId: 'app' };
      const writer = await LedgerWriter.open({ client, storage: memoryStorage(), stream });
      const known = Object.hasOwn(LEDGER_REFUSALS, code);
      expect(await writer.write([{ deleteEntity: { key: 'k' } }])).toMatchObject({
        ok: false,
        code,
        happened: known ? LEDGER_REFUSALS[code as LedgerRefusalCode].happened : 'unknown',
      });
      writer.close();
    },
  );
});
