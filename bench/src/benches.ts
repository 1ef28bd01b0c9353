import { benchClient } from './client/bench-client.ts';
import { benchEngine } from './engine/bench-engine.ts';
import { benchHttp } from './http/bench-http.ts';
import { benchJobs } from './jobs/bench-jobs.ts';
import { benchLedger } from './ledger.ts';
import { benchRestart } from './ledger-restart/bench-restart.ts';
import type { Report } from './report.ts';
import { benchStores } from './stores/bench-stores.ts';

export interface BenchOptions {
  readonly quick: boolean;
}

export type Bench = (report: Report, options: BenchOptions) => Promise<void>;

export const benches: Readonly<Record<string, Bench>> = {
  client: benchClient,
  engine: benchEngine,
  http: benchHttp,
  jobs: benchJobs,
  ledger: benchLedger,
  'ledger-restart': benchRestart,
  stores: benchStores,
};
