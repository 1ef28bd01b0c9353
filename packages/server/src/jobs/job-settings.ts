import {
  type Kind,
  list,
  oneOf,
  type Setting,
  seconds,
  text,
  wholeNumber,
} from '../config/setting.ts';

/** Spelled out, because a setting that begins unset has a type that its kind does not know. */
function unset<T>(about: Omit<Setting<T>, 'initial' | 'kind'> & { kind: Kind<T> }) {
  return { ...about, initial: null } as Setting<T | null>;
}

const A_DAY = 86_400;
const A_YEAR = 366 * A_DAY;
const URL_PATTERN = /^https?:\/\/[^\s,]{1,500}$/;

/** The settings of jobs: which part of them this process plays, and with whom. */
export const jobSettings = {
  role: {
    name: 'ONCEWARD_ROLE',
    flag: 'role',
    kind: oneOf('both', 'gate', 'manager'),
    initial: 'both',
    about:
      'What this process does for jobs: `gate` takes them from clients, `manager` decides and runs, `both` does all.',
  } as Setting<'both' | 'gate' | 'manager'>,
  managers: {
    name: 'ONCEWARD_MANAGERS',
    flag: 'manager',
    kind: list(URL_PATTERN, 'URLs of managers, separated by commas'),
    initial: [],
    about: 'The managers of a gate. They share a store; any of them will do.',
  } as Setting<readonly string[]>,
  clusterSecret: unset({
    name: 'ONCEWARD_CLUSTER_SECRET',
    kind: text(/^[\x21-\x7e]{16,500}$/, '16 to 500 printable characters without spaces'),
    secret: true,
    about:
      'Shared by gates and managers that trust each other. A manager serves no gate without it.',
  }),
  jobConcurrency: {
    name: 'ONCEWARD_JOB_CONCURRENCY',
    kind: wholeNumber(0, 10_000),
    initial: 64,
    about:
      'Jobs that a manager runs at once, and a quarter more of tenants that others would keep waiting; 0 leaves running them to other managers.',
  } as Setting<number>,
  maxJobsPerTenant: {
    name: 'ONCEWARD_MAX_JOBS_PER_TENANT',
    kind: wholeNumber(1, 10_000_000),
    initial: 100_000,
    about: 'Jobs of one tenant that may be waiting, running or in doubt at once. More get 429.',
  } as Setting<number>,
  jobKeepSeconds: {
    name: 'ONCEWARD_JOB_KEEP_SECONDS',
    kind: seconds(1, A_YEAR),
    initial: 86_400,
    about: 'How long a job that is over can be looked up.',
  } as Setting<number>,
  jobWorkers: {
    name: 'ONCEWARD_JOB_WORKERS',
    kind: list(
      /^[\w.-]{1,128}(:never)?=https?:\/\/[^\s,]{1,500}$/,
      'type=URL, separated by commas; type:never=URL for one that must not run twice',
    ),
    initial: [],
    about: 'Kinds of job that workers do over HTTP.',
  } as Setting<readonly string[]>,
  jobWorkerSecret: unset({
    name: 'ONCEWARD_JOB_WORKER_SECRET',
    kind: text(/^[\x21-\x7e]{16,500}$/, '16 to 500 printable characters without spaces'),
    secret: true,
    about: 'Signs what is sent to the workers. They are not called without it.',
  }),
  jobWorkerTimeoutSeconds: {
    name: 'ONCEWARD_JOB_WORKER_TIMEOUT_SECONDS',
    kind: seconds(1, A_DAY),
    initial: 60,
    about:
      'How long a worker may take for one run. A run that takes longer is repeated, or in doubt, as its kind says.',
  } as Setting<number>,
  dataCentre: unset({
    name: 'ONCEWARD_DATA_CENTRE',
    flag: 'data-centre',
    kind: text(/^[\w.-]{1,64}$/, 'a name of up to 64 letters, digits, dots and dashes'),
    about: 'The data centre this process is in, as the table of homes names it.',
  }),
  homes: unset({
    name: 'ONCEWARD_HOMES',
    flag: 'homes',
    kind: text(/^[^\0]{1,4096}$/, 'the path of a file'),
    about: 'The table of homes: which data centre decides on which tenant, and how to reach it.',
  }),
} as const;
