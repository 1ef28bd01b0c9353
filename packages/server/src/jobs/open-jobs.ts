import { type Engine, nodeWorld, type Observe, OncewardError } from 'onceward';
import {
  builtInTypes,
  defineJob,
  Gate,
  GlobalView,
  HomeRouter,
  httpWorker,
  JobManager,
  type JobsPort,
  type JobType,
  type JobWindows,
  jobWindows,
  ManagerEndpoint,
  ManagerLink,
  ManagerPool,
} from 'onceward/jobs';
import type { Logger } from 'pino';
import type { Settings } from '../config/settings.ts';
import type { Quota } from '../quota/quota.ts';
import { BoundedJobs } from './bounded-jobs.ts';
import { type HomeFile, readHomeFile } from './home-file.ts';

/** What this process has of the jobs: a gate for clients, an endpoint for other gates, or both. */
export interface Jobs {
  readonly gate: Gate | null;
  readonly endpoint: ManagerEndpoint | null;
  /** Where there is more than one data centre. */
  readonly globalView: GlobalView | null;
  close(drainMs: number): Promise<void>;
}

export interface JobsSurroundings {
  readonly settings: Settings;
  readonly engine: Engine;
  readonly log: Logger;
  readonly quota: Quota;
  readonly observe: Observe;
}

const world = nodeWorld();

export async function openJobs(around: JobsSurroundings): Promise<Jobs> {
  const { settings } = around;
  const windows = windowsOf(settings);
  const closing: (() => Promise<void> | void)[] = [];
  const file = readHomes(settings);
  const manager = settings.role === 'gate' ? null : startManager(around, windows);
  const local =
    manager === null
      ? await connectToManagers(around, windows, file, closing)
      : new BoundedJobs(manager, around.quota);
  const homes = file === null ? null : openHomes(settings, file, local, closing);
  const jobs = homes?.router ?? local;
  const onFault = (err: unknown) => around.log.error({ err }, 'submission_fault');
  const gate =
    settings.role === 'manager'
      ? null
      : new Gate({ manager: jobs, world, windows, observe: around.observe, onFault });
  const endpoint =
    settings.role === 'gate' || settings.clusterSecret === null
      ? null
      : new ManagerEndpoint({
          jobs: local,
          windows,
          secret: settings.clusterSecret,
          onFault,
          ...(homes === null ? {} : { refuseHome: homes.router.refuseHome }),
        });
  homes?.globalView.start();
  return {
    gate,
    endpoint,
    globalView: homes?.globalView ?? null,
    async close(drainMs) {
      gate?.close();
      homes?.globalView.close();
      await manager?.close(drainMs);
      for (const close of closing) await close();
    },
  };
}

/** The windows of the settings; what they leave open is as the library has it. */
export function windowsOf(settings: Settings): JobWindows {
  const ms = (value: number | null, otherwise: number) =>
    value === null ? otherwise : Math.round(value * 1_000);
  const isWaiting = settings.waitForPending !== false;
  return {
    pendingMs: ms(settings.pendingTtlSeconds, jobWindows.pendingMs),
    committedMs: ms(settings.committedTtlSeconds, jobWindows.committedMs),
    rejectedMs: ms(settings.rejectedTtlSeconds, jobWindows.rejectedMs),
    maxEntries: settings.maxEntries,
    cleanupMs: Math.round(settings.cleanupIntervalSeconds * 1_000),
    waitMs: isWaiting ? ms(settings.pendingWaitTimeout, jobWindows.waitMs) : 0,
  };
}

function startManager(
  { settings, engine, log }: JobsSurroundings,
  windows: JobWindows,
): JobManager {
  return new JobManager({
    engine,
    world,
    windows,
    types: [...builtInTypes, ...workersOf(settings)],
    run: settings.jobConcurrency > 0,
    concurrency: settings.jobConcurrency,
    keepEndedMs: Math.round(settings.jobKeepSeconds * 1_000),
    onFault: (err, id) => log.error({ err, job_id: id?.key }, 'job_fault'),
  });
}

function workersOf(settings: Settings): JobType[] {
  const { jobWorkers, jobWorkerSecret: secret } = settings;
  const timeoutMs = Math.round(settings.jobWorkerTimeoutSeconds * 1_000);
  return jobWorkers.map((entry) => {
    if (secret === null) {
      throw invalid('ONCEWARD_JOB_WORKERS needs ONCEWARD_JOB_WORKER_SECRET to sign what is sent');
    }
    const [name = '', url = ''] = entry.split(/=(.*)/s);
    const [type = '', never] = name.split(':');
    const rerun = never === undefined ? 'safe' : 'never';
    return defineJob(httpWorker({ type, rerun, secret, timeoutMs, url: new URL(url) }));
  });
}

/** A gate whose managers have shorter windows does not start; one whose managers are not up yet does. */
async function connectToManagers(
  { settings, log }: JobsSurroundings,
  windows: JobWindows,
  file: HomeFile | null,
  closing: (() => void)[],
): Promise<JobsPort> {
  if (settings.managers.length === 0) {
    throw invalid('a gate needs managers: set ONCEWARD_MANAGERS (--manager URL,URL)');
  }
  const secret = secretOf(settings, 'a gate');
  // Managers of the same data centre compare versions too: theirs may have been started with another table.
  const homes = file === null ? {} : { homes: () => file.table.version };
  const links = settings.managers.map(
    (url) => new ManagerLink({ url: new URL(url), secret, ...homes }),
  );
  const onMisfit = (err: Error) => log.error({ err }, 'manager_misfit');
  const pool = new ManagerPool({ links, world, windows, onMisfit });
  closing.push(() => pool.close());
  const answered = await pool.checkWindows();
  if (answered < links.length) log.warn({ answered, of: links.length }, 'managers_not_reached');
  return pool;
}

interface OpenHomes {
  readonly router: HomeRouter;
  readonly globalView: GlobalView;
}

function readHomes({ dataCentre: here, homes: path }: Settings): HomeFile | null {
  if (path === null && here === null) return null;
  if (path === null || here === null) {
    throw invalid('ONCEWARD_HOMES and ONCEWARD_DATA_CENTRE are set together or not at all');
  }
  return readHomeFile(path, here);
}

function openHomes(
  settings: Settings,
  file: HomeFile,
  local: JobsPort,
  closing: (() => void)[],
): OpenHomes {
  const { here } = file;
  const away = connectToOthers(file, here, secretOf(settings, 'a data centre'), closing);
  const router = new HomeRouter({ here, table: () => file.table, local, away });
  const globalView = new GlobalView({
    dataCentres: new Map([[here, local], ...away]),
    world,
    everyMs: GLOBAL_VIEW_MS,
  });
  return { router, globalView };
}

const GLOBAL_VIEW_MS = 3_000;

function connectToOthers(
  { table, managers }: HomeFile,
  here: string,
  secret: string,
  closing: (() => void)[],
): Map<string, JobsPort> {
  const others = [...managers].filter(([name]) => name !== here);
  return new Map(
    others.map(([name, urls]) => {
      const homes = () => table.version;
      const links = urls.map((url) => new ManagerLink({ url, secret, homes }));
      const pool = new ManagerPool({ links, world });
      closing.push(() => pool.close());
      return [name, pool];
    }),
  );
}

function secretOf(settings: Settings, who: string): string {
  if (settings.clusterSecret !== null) return settings.clusterSecret;
  throw invalid(`${who} needs ONCEWARD_CLUSTER_SECRET, the same as its managers have`);
}

function invalid(message: string): OncewardError {
  return new OncewardError('ONCE_INVALID_CONFIG', message);
}
