import { Engine, type EngineOptions } from './engine/engine.ts';
import { nodePlatform } from './runtime/node-platform.ts';
import { nodeWorld } from './runtime/node-world.ts';

export type OncewardOptions = Omit<EngineOptions, 'world' | 'platform'>;

/** An engine on Node: the real clock, SHA-256 and zlib. */
export function createOnceward(options: OncewardOptions): Engine {
  return new Engine({ ...options, world: nodeWorld(), platform: nodePlatform() });
}
