import { afterEach, expect, it, vi } from 'vitest';
import { id, operation } from './engine/engine.fixture.ts';
import { createOnceward, type OncewardOptions } from './onceward.ts';
import { memoryStore } from './stores/memory/index.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

/** An attempt that does not know what it did, and a person who looked. */
async function resolveOne(options: Partial<OncewardOptions> = {}) {
  const onceward = createOnceward({ store: memoryStore(), sweep: false, ...options });
  await onceward.execute(operation, async () => ({ as: 'in_doubt' }));
  expect((await onceward.read(id))?.state).toBe('in_doubt');
  const verdict = { as: 'void', by: 'ann', reason: 'looked', keepMs: 1_000 } as const;
  expect(await onceward.resolve(id, verdict)).toEqual({ done: true });
  await onceward.close();
}

it('a verdict is on record where nobody gave a place for it: one line of JSON on standard error', async () => {
  const said = vi.spyOn(console, 'error').mockImplementation(() => {});
  await resolveOne();
  const lines = said.mock.calls.map(([line]) => JSON.parse(String(line)));
  expect(lines).toMatchObject([
    {
      audit: {
        action: 'resolve',
        ...id,
        by: 'ann',
        reason: 'looked',
        from: 'in_doubt',
        to: 'void',
      },
    },
  ]);
});

it('a place that was given gets the line alone', async () => {
  const said = vi.spyOn(console, 'error');
  const audit = vi.fn(async () => {});
  await resolveOne({ audit });
  expect(audit).toHaveBeenCalledOnce();
  expect(said).not.toHaveBeenCalled();
});
