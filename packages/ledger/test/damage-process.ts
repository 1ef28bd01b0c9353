import {
  closeSync,
  cpSync,
  fstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EmbeddedLog } from '../src/log/embedded-log.ts';
import { openLedger } from '../src/open-ledger.ts';
import { CALLER, makeAccounts, transferBody } from './manual-ledger.ts';

/**
 * Damages copies of one ledger's folder at random, opens each, and reports what was neither rebuilt to the same bytes
 * nor refused with what to do. In a process of its own: a signal must not end the tests.
 *
 *     node damage-process.ts SEED COUNT
 */
const PAGE = 4_096;
const KEYS = 60;
const REFUSED = /Restore|restore|Choose another folder/;
const BODY = transferBody({ from: 'acct_0', to: 'acct_1', amount: 1 });

const [seed, count] = process.argv.slice(2).map(Number) as [number, number];
let state = seed;
function roll(below: number): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}

function openLog(directory: string): Promise<EmbeddedLog> {
  return EmbeddedLog.open({ directory: join(directory, 'log'), segmentBytes: 16_384 });
}

/** A ledger that was closed, and a copy as a kill leaves it: with a state that is older than its log. */
async function build(directory: string, killed: string) {
  let ledger = await openLedger({ directory, log: await openLog(directory), snapshotBytes: 1 });
  await makeAccounts(ledger, 400);
  await ledger.createOrganization(CALLER, { name: 'acme' });
  for (let n = 0; n < KEYS; n += 1) {
    const result = await ledger.transact(CALLER, `key-${n}`, BODY);
    if (!result.ok) throw new Error(result.message);
    if (n === KEYS / 2) await ledger.checkpoint();
    if (n !== (KEYS * 3) / 4) continue;
    await ledger.close();
    ledger = await openLedger({ directory, log: await openLog(directory), snapshotBytes: 2 ** 40 });
  }
  cpSync(directory, killed, { recursive: true, filter: (path) => !/lock/.test(path) });
  const { header } = ledger.getTip();
  const hashes = Array.from({ length: header.height }, (_, at) => ledger.getBlock(at + 1)?.hash);
  await ledger.close();
  return { height: header.height, hashes };
}

const ANYTHING = /data\.mdb$|extent\.json$|log[/\\]\d/;
/** After a kill nothing but the log knows its end: what damage takes off there is as if it had not been written. */
const ALL_BUT_THE_LOG = /data\.mdb$|extent\.json$/;

/** Garbles, blanks, flips a bit of, cuts or removes some of what is there. */
function damage(directory: string, what: RegExp): string {
  const names = readdirSync(directory, { recursive: true }) as string[];
  const files = names.filter((name) => what.test(name));
  const name = files[roll(files.length)] as string;
  const path = join(directory, name);
  const kind = roll(12);
  if (kind === 0) {
    rmSync(path);
    return `${name} removed`;
  }
  const file = openSync(path, 'r+');
  try {
    const { size } = fstatSync(file);
    if (kind === 1) {
      truncateSync(path, roll(size));
      return `${name} cut`;
    }
    const at = roll(Math.ceil(size / PAGE)) * PAGE;
    const bytes = Buffer.alloc(Math.min(PAGE, size - at));
    readSync(file, bytes, 0, bytes.length, at);
    const place = roll(bytes.length);
    if (kind < 5) for (let n = 0; n < bytes.length; n += 1) bytes[n] = roll(256);
    else if (kind < 7) bytes.fill(0);
    else bytes[place] = (bytes[place] as number) ^ (1 << roll(8));
    writeSync(file, bytes, 0, bytes.length, at);
    return `${name} page ${at / PAGE} ${kind < 5 ? 'garbled' : kind < 7 ? 'blanked' : 'flipped'}`;
  } finally {
    closeSync(file);
  }
}

type Built = Awaited<ReturnType<typeof build>>;

async function judge(directory: string, built: Built): Promise<string | null> {
  let ledger: Awaited<ReturnType<typeof openLedger>>;
  try {
    ledger = await openLedger({ directory });
  } catch (error) {
    const { message } = error as Error;
    return REFUSED.test(message) ? null : `refused without advice: ${message}`;
  }
  try {
    return await compare(ledger, built);
  } catch (error) {
    return `failed: ${(error as Error).stack}`;
  } finally {
    await ledger.close();
  }
}

async function compare(
  ledger: Awaited<ReturnType<typeof openLedger>>,
  { height, hashes }: Built,
): Promise<string | null> {
  for (let at = ledger.firstBlock; at <= height; at += 1) {
    let hash: string | undefined;
    try {
      hash = ledger.getBlock(at)?.hash;
    } catch (error) {
      if ((error as { code?: string }).code === 'ONCE_RECORD_UNREADABLE') continue;
      throw error;
    }
    if (hash !== hashes[at - 1]) return `block ${at} is another one`;
  }
  if (ledger.getTip().header.height !== height + 1) return 'it goes on elsewhere';
  if (ledger.reads.account('acct_1')?.balance !== BigInt(KEYS)) return 'a balance is wrong';
  for (let n = 0; n < KEYS; n += 1) {
    const result = await ledger.transact(CALLER, `key-${n}`, BODY);
    if (result.ok) return `key-${n} was posted again`;
  }
  const { state: report } = await ledger.integrity();
  return report.ok ? null : `the state is not sound: ${report.problem}`;
}

const folder = mkdtempSync(join(tmpdir(), 'onceward-damage-'));
try {
  const whole = join(folder, 'whole');
  const killed = join(folder, 'killed');
  const built = await build(whole, killed);
  for (let n = 0; n < count; n += 1) {
    const copy = join(folder, 'copy');
    rmSync(copy, { recursive: true, force: true });
    const isKilled = roll(3) === 0;
    cpSync(isKilled ? killed : whole, copy, { recursive: true });
    const what = isKilled ? ALL_BUT_THE_LOG : ANYTHING;
    const done = [`${isKilled ? 'killed: ' : ''}${damage(copy, what)}`];
    if (roll(4) === 0) done.push(damage(copy, what));
    process.stdout.write(`${n} ${done.join(' and ')}\n`);
    const problem = await judge(copy, built);
    if (problem !== null) process.stdout.write(`WRONG ${problem}\n`);
  }
  process.stdout.write('done\n');
} finally {
  rmSync(folder, { recursive: true, force: true });
}
