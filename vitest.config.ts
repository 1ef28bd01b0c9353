import { defineConfig } from 'vitest/config';

/** The workspace is tested from source: its packages' export maps lead to `src` under this condition. */
const shared = {
  resolve: { conditions: ['onceward-source'] },
  ssr: { resolve: { conditions: ['onceward-source', 'node'] } },
};

const folders = '{packages/*/{src,test},simulator,bench,test,examples,scripts}';

export default defineConfig({
  test: {
    projects: [
      {
        ...shared,
        test: {
          // Needs no server; the whole project finishes within a minute.
          name: 'unit',
          include: [`${folders}/**/*.test.ts`],
          exclude: ['**/*.integration.test.ts', '**/node_modules/**', '**/dist/**'],
          testTimeout: 20_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        ...shared,
        test: {
          // Starts real servers and processes: after the unit tests and one file at a time, so that what a file
          // measures or kills has the machine to itself.
          name: 'integration',
          include: [`${folders}/**/*.integration.test.ts`],
          exclude: ['**/node_modules/**', '**/dist/**'],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
