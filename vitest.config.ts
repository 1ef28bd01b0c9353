import { defineConfig } from 'vitest/config';

/** `unit` needs no server and finishes within a minute; `integration` starts real servers and processes. */
const shared = {
  resolve: { conditions: ['onceward-source'] },
  ssr: { resolve: { conditions: ['onceward-source', 'node', 'import', 'default'] } },
};

export default defineConfig({
  test: {
    projects: [
      {
        ...shared,
        test: {
          name: 'unit',
          include: ['{packages/*/{src,test},simulator,bench,test,examples}/**/*.test.ts'],
          exclude: ['**/*.integration.test.ts', '**/node_modules/**', '**/dist/**'],
          testTimeout: 20_000,
        },
      },
      {
        ...shared,
        test: {
          name: 'integration',
          include: ['{packages/*/{src,test},simulator,bench,test,examples}/**/*.integration.test.ts'],
          exclude: ['**/node_modules/**', '**/dist/**'],
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
