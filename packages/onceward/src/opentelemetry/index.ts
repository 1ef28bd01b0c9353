import type { Engine } from '../engine/engine.ts';
import type { OncewardOptions } from '../onceward.ts';
import { nodePlatform } from '../runtime/node-platform.ts';
import { nodeWorld } from '../runtime/node-world.ts';
import { TracedEngine } from './traced-engine.ts';

export { spanOfAttempt } from './trace-tag.ts';
export { TracedEngine } from './traced-engine.ts';

/** `createOnceward` with OpenTelemetry spans. Without an SDK in the process it costs next to nothing. */
export function createTracedOnceward(options: OncewardOptions): Engine {
  return new TracedEngine({ ...options, world: nodeWorld(), platform: nodePlatform() });
}
