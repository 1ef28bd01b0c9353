import { describe, it } from 'vitest';
import { DoesNotConcern, type OpenedStore } from './store-law.ts';
import { STORE_LAWS } from './store-laws.ts';

/**
 * The laws of `RecordStore`, for any adapter, on its real backend. Needs `vitest` and `fast-check`.
 *
 * ```ts
 * storeSuite({
 *   name: 'redis',
 *   async open() {
 *     const server = await startRedis();
 *     const store = await redisStore({ client: await connect(server) });
 *     return { store, close: async () => { await store.close(); await server.stop(); } };
 *   },
 * });
 * ```
 */
export interface StoreSuiteOptions {
  readonly name: string;
  /** Opens a store that holds nothing. Called for each law. */
  open(): Promise<OpenedStore>;
  /** Laws that this store cannot keep, each with the reason, which is printed. */
  readonly skip?: Readonly<Partial<Record<StoreLaw, string>>>;
  /** How many random histories are tried; 50 by default. */
  readonly histories?: number;
  /** For each law; 20 s by default. */
  readonly timeoutMs?: number;
}

export type { OpenedStore } from './store-law.ts';

export type StoreLaw = keyof typeof STORE_LAWS;

export function storeSuite(options: StoreSuiteOptions): void {
  const { name, skip = {}, histories = 50, timeoutMs = 20_000 } = options;
  describe(`store laws: ${name}`, () => {
    for (const [law, { title, check }] of Object.entries(STORE_LAWS)) {
      const reason = skip[law as StoreLaw];
      if (reason !== undefined) {
        it.skip(`${title} (skipped: ${reason})`);
        continue;
      }
      it(title, { timeout: timeoutMs }, async (context) => {
        const opened = await options.open();
        try {
          await check(opened, { histories });
        } catch (error) {
          if (!(error instanceof DoesNotConcern)) throw error;
          context.skip(error.message);
        } finally {
          await opened.close();
        }
      });
    }
  });
}
