import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../../scripts/services/index.ts';
import { bundle } from '../bundle.ts';
import { OncewardProcess } from '../jobs-crash/victim.ts';
import { type Ending, findComplaints, readCharges } from './journal.ts';

export interface CrashOptions {
  readonly rounds: number;
  readonly random: () => number;
}

export interface CrashReport {
  readonly complaints: readonly string[];
  readonly kills: Readonly<Record<string, number>>;
  readonly endings: readonly Ending[];
  readonly charges: number;
}

const ADMIN = { 'x-api-key': 'ak_crash', 'x-api-secret': 'sk_crash' };
const LAST_ROUNDS = 4;

/** A device before a gateway before an API: real processes, of which one or the other is killed in every round. */
export async function runCrashes({ rounds, random }: CrashOptions): Promise<CrashReport> {
  const folder = mkdtempSync(join(tmpdir(), 'onceward-end-to-end-'));
  const scene = await Scene.open(folder);
  const kills: Record<string, number> = { device: 0, gateway: 0, upstream: 0 };
  try {
    await scene.startUpstream('storm');
    await scene.gateway.start();
    const batches: string[] = [];
    /** Of these nobody has heard that they are stored: they are asked for again, which their keys make safe. */
    let unheard: string[] = [];
    for (let round = 0; round < rounds; round += 1) {
      batches.push(`batch${round}`);
      unheard.push(`batch${round}`);
      const device = scene.startDevice('live', unheard);
      // Short lives die while they open their log, long ones while they send or after.
      await sleep(200 + random() * 1_500);
      const chance = random();
      if (chance < 0.3) {
        await scene.gateway.kill();
        kills.gateway! += 1;
        await sleep(random() * 300);
        await Promise.all([scene.gateway.start(), sleep(random() * 500)]);
      } else if (chance < 0.6) {
        await scene.upstream?.kill();
        kills.upstream! += 1;
        await sleep(random() * 300);
        await scene.startUpstream('storm');
      }
      await sleep(random() * 500);
      await device.kill();
      if (device.hasPrinted('queued')) unheard = [];
      kills.device! += 1;
    }
    await scene.upstream?.kill();
    await scene.startUpstream('calm');
    const endings = await scene.finish(unheard, batches);
    const charges = readCharges(scene.journal);
    const complaints = findComplaints(charges, endings);
    return { complaints, kills, endings, charges: charges.length };
  } finally {
    await scene.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

class Scene {
  readonly journal: string;
  readonly gateway: OncewardProcess;
  upstream: Process | null = null;
  readonly #folder: string;
  readonly #upstreamPort: number;
  readonly #admin: string;
  readonly #open = new Set<Process>();

  private constructor(folder: string, ports: { upstream: number; gateway: number; admin: number }) {
    this.#folder = folder;
    this.journal = join(folder, 'journal.jsonl');
    this.#upstreamPort = ports.upstream;
    this.#admin = `http://127.0.0.1:${ports.admin}`;
    this.gateway = new OncewardProcess(
      'gateway',
      ports.gateway,
      {
        ONCEWARD_ADMIN_PORT: String(ports.admin),
        ONCEWARD_DATA: join(folder, 'gateway'),
        ONCEWARD_UPSTREAM_TIMEOUT_SECONDS: '0.5',
        IDEMPOTENCY_COMMITTED_TTL_SECONDS: '3600',
        IDEMPOTENCY_REJECTED_TTL_SECONDS: '3600',
        ONCEWARD_API_KEY: ADMIN['x-api-key'],
        ONCEWARD_API_SECRET: ADMIN['x-api-secret'],
      },
      ['gateway', '--upstream', `http://127.0.0.1:${ports.upstream}`],
      ports.admin,
    );
  }

  static async open(folder: string): Promise<Scene> {
    for (const name of ['upstream-process', 'device-process']) {
      const entry = fileURLToPath(new URL(`./${name}.ts`, import.meta.url));
      await bundle(entry, join(folder, `${name}.mjs`));
    }
    const upstream = await freePort();
    return new Scene(folder, { upstream, gateway: await freePort(), admin: await freePort() });
  }

  async startUpstream(weather: 'storm' | 'calm'): Promise<void> {
    const args = [this.journal, String(this.#upstreamPort), weather];
    this.upstream = this.#spawn('upstream-process', args);
    await this.upstream.printed('ready');
  }

  startDevice(
    task: 'live' | 'end',
    unheard: readonly string[],
    batches: readonly string[] = [],
  ): Process {
    const args = [
      join(this.#folder, 'outbox'),
      this.gateway.url,
      task,
      unheard.join(','),
      ...batches,
    ];
    return this.#spawn('device-process', args);
  }

  /** The last life goes on until nothing waits; an operator clears up the doubts that are left. */
  async finish(unheard: readonly string[], batches: readonly string[]): Promise<readonly Ending[]> {
    const device = this.startDevice('end', unheard, batches);
    for (let round = 1; round <= LAST_ROUNDS; round += 1) {
      await device.printed('settled', round);
      await this.#resolveDoubts();
      if (round < LAST_ROUNDS) device.say('again\n');
    }
    device.end();
    const line = await device.printed('endings ');
    await device.ended;
    return JSON.parse(line.slice('endings '.length)) as Ending[];
  }

  async #resolveDoubts(): Promise<void> {
    const listed = await fetch(
      `${this.#admin}/admin/idempotency/recent?limit=1000&state=in_doubt`,
      {
        headers: ADMIN,
      },
    );
    const { records } = (await listed.json()) as { records: { scope: string; key: string }[] };
    const charged = new Set(readCharges(this.journal).map(({ key }) => key));
    for (const { scope, key } of records) {
      const path = [scope, key].map(encodeURIComponent).join('/');
      const answer = await fetch(`${this.#admin}/admin/idempotency/${path}/resolve`, {
        method: 'POST',
        headers: { ...ADMIN, 'content-type': 'application/json' },
        body: JSON.stringify({ as: charged.has(key) ? 'committed' : 'void', reason: 'looked' }),
      });
      if (!answer.ok) throw new Error(`${key} was not resolved: ${await answer.text()}`);
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open].map((process) => process.kill()));
    await this.gateway.stop();
  }

  #spawn(name: string, args: readonly string[]): Process {
    const process = new Process(join(this.#folder, `${name}.mjs`), args);
    this.#open.add(process);
    void process.ended.then(() => this.#open.delete(process));
    return process;
  }
}

/** A program of this folder as a child. */
class Process {
  readonly ended: Promise<unknown>;
  readonly #child: ChildProcess;
  #output = '';

  constructor(script: string, args: readonly string[]) {
    this.#child = spawn(process.execPath, [script, ...args], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#child.stdout?.on('data', (chunk) => {
      this.#output += chunk;
    });
    this.ended = once(this.#child, 'close');
  }

  /** The line that begins so, when it has been printed as often as asked for. */
  async printed(beginning: string, times = 1): Promise<string> {
    for (;;) {
      const lines = this.#output.split('\n').slice(0, -1);
      const found = lines.filter((line) => line.startsWith(beginning));
      if (found.length >= times) return found.at(-1) ?? '';
      if (this.#child.exitCode !== null) throw new Error(`it ended without "${beginning}"`);
      await sleep(20);
    }
  }

  hasPrinted(line: string): boolean {
    return this.#output.includes(`${line}\n`);
  }

  say(text: string): void {
    this.#child.stdin?.write(text);
  }

  end(): void {
    this.#child.stdin?.end();
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.ended;
  }
}
