import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { locate } from '../../../scripts/services/index.ts';
import type { Scrape } from './scrape.ts';

/** A quarter of a minute lies between two scrapes, as in many installations. */
const USUAL_SECONDS = 15;

/**
 * Whether an alert of the rules fires at the end of these scrapes, taken as if they lay `apart` seconds apart. The last
 * one is held for `heldSeconds`, for alerts that want a state to last.
 */
export function fires(
  alert: string,
  rules: string,
  scrapes: readonly Scrape[],
  heldSeconds = 0,
  apart = USUAL_SECONDS,
): boolean {
  const held = Math.ceil(heldSeconds / apart);
  const endSeconds = (scrapes.length - 1 + held) * apart;
  const folder = mkdtempSync(join(tmpdir(), 'onceward-promtool-'));
  const file = join(folder, 'test.json');
  const firing = `count(ALERTS{alertname="${alert}",alertstate="firing"}) > bool 0`;
  const test = {
    rule_files: [rules],
    evaluation_interval: `${apart}s`,
    tests: [
      {
        interval: `${apart}s`,
        input_series: inputOf(scrapes, held),
        promql_expr_test: [
          {
            expr: firing,
            eval_time: `${endSeconds}s`,
            exp_samples: [{ labels: '{}', value: 1 }],
          },
        ],
      },
    ],
  };
  try {
    writeFileSync(file, JSON.stringify(test));
    execFileSync(locate('promtool'), ['test', 'rules', file], { stdio: 'pipe' });
    return true;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: Buffer; stderr?: Buffer };
    const output = `${stdout}${stderr}`;
    // Anything but "the sample is not there" is a fault of the rules or of this test.
    if (/exp:.*got:\s*nil/s.test(output)) return false;
    throw new Error(output, { cause: error });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function inputOf(scrapes: readonly Scrape[], held: number) {
  const names = new Set(scrapes.flatMap((scraped) => [...scraped.keys()]));
  const ours = [...names].filter((name) => name.startsWith('onceward_'));
  return ours.map((series) => {
    const values = scrapes.map((scraped) => String(scraped.get(series) ?? '_'));
    const last = scrapes.at(-1)?.get(series);
    const tail = held === 0 || last === undefined ? [] : [`${last}+0x${held - 1}`];
    return { series: labelled(series), values: [...values, ...tail].join(' ') };
  });
}

function labelled(series: string): string {
  const target = 'job="onceward",instance="a"';
  return series.endsWith('}')
    ? series.replace(/\}$/, `,${target}}`).replace('{,', '{')
    : `${series}{${target}}`;
}
