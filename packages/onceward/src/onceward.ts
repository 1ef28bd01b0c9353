import { Engine, type EngineOptions } from './engine/engine.ts';
import { nodePlatform } from './runtime/node-platform.ts';
import { nodeWorld } from './runtime/node-world.ts';
import { stderrAudit } from './runtime/stderr-audit.ts';

export type OncewardOptions = Omit<EngineOptions, 'world' | 'platform'>;

/** An engine on Node: the real clock, SHA-256 and zlib. By default its audit lines go to standard error. */
export function createOnceward(options: OncewardOptions): Engine {
  const { audit = stderrAudit } = options;
  return new Engine({ ...options, audit, world: nodeWorld(), platform: nodePlatform() });
}
