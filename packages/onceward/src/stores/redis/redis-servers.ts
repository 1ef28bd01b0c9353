import type { Command, Reply } from './redis-driver.ts';
import type { RedisLink } from './redis-link.ts';

/** One server, or several that share the keys. */
export interface RedisServers {
  /** Whether one command may only name keys of one hash slot. */
  readonly clustered: boolean;
  /** Runs a command where `key` lives. */
  run(key: string, command: Command): Promise<Reply>;
  /** Those that hold keys, for what concerns all of them. */
  masters(): Promise<readonly RedisLink[]>;
  close(): void;
}

export function singleServer(link: RedisLink, clustered: boolean): RedisServers {
  return {
    clustered,
    run: (_key, command) => link.send(command),
    masters: async () => [link],
    close: () => link.close(),
  };
}
