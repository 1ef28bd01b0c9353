import { describe, it } from 'vitest';
import { DOOR_ANSWER_LAWS } from './door-answer-laws.ts';
import type { Listen } from './door-app.ts';
import { DoorBench, type DoorLaw } from './door-bench.ts';
import { DOOR_FAILURE_LAWS } from './door-failure-laws.ts';
import { DOOR_KEY_LAWS } from './door-key-laws.ts';
import { DOOR_MODE_LAWS } from './door-mode-laws.ts';
import { DOOR_RETENTION_LAWS } from './door-retention-laws.ts';
import { DOOR_STREAM_LAWS } from './door-stream-laws.ts';
import { DOOR_TRAFFIC_LAWS } from './door-traffic-laws.ts';

export type { DoorAnswer, DoorApp, DoorCall, DoorRoute, ListeningDoor } from './door-app.ts';

/**
 * What every door promises, tried on a real listening server. Needs `vitest`.
 *
 * ```ts
 * doorSuite({ name: 'express', listen: async (app) => { … return { url, close }; } });
 * ```
 */
export interface DoorSuiteOptions {
  readonly name: string;
  /** Builds the application behind the door and listens on a free loopback port. Called for each test. */
  readonly listen: Listen;
  /** Tests that do not concern this door, by title, each with the reason, which is printed. */
  readonly skip?: Readonly<Record<string, string>>;
}

const LAWS: readonly DoorLaw[] = [
  ...DOOR_KEY_LAWS,
  ...DOOR_ANSWER_LAWS,
  ...DOOR_RETENTION_LAWS,
  ...DOOR_STREAM_LAWS,
  ...DOOR_TRAFFIC_LAWS,
  ...DOOR_FAILURE_LAWS,
  ...DOOR_MODE_LAWS,
];

export function doorSuite({ name, listen, skip = {} }: DoorSuiteOptions): void {
  describe(`door: ${name}`, () => {
    for (const { title, check } of LAWS) {
      const reason = skip[title];
      if (reason !== undefined) {
        it.skip(`${title} (skipped: ${reason})`);
        continue;
      }
      it(title, { timeout: 30_000 }, async () => {
        const bench = new DoorBench(listen);
        try {
          await check(bench);
        } finally {
          await bench.close();
        }
      });
    }
  });
}
