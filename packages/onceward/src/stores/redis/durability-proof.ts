import type { Durability, StoreFinding } from '../durability.ts';
import { invalidConfig } from '../invalid-config.ts';
import type { Reply } from './redis-driver.ts';
import type { RedisLink } from './redis-link.ts';

export interface DurabilityProof {
  readonly durability: Durability;
  readonly findings: readonly StoreFinding[];
}

const ADVICE = {
  appendonly: 'without an append-only file a restart forgets every claim; set appendonly yes',
  appendfsync: 'a crash loses up to two seconds of acknowledged writes; set appendfsync always',
  policy: 'Redis may evict claims to make room; set maxmemory-policy noeviction',
  replicas:
    'replication is asynchronous: a failover can lose acknowledged claims, which is best effort, not at most once',
} as const;

const ON_REPLICA =
  'this Redis is a replica, which takes no writes and lags behind; the store must be given the master';

/** Asks the servers for the settings that decide what an acknowledged write is worth: the weakest of them counts. */
export async function proveDurability(links: readonly RedisLink[]): Promise<DurabilityProof> {
  const proofs = await Promise.all(links.map(proveOne));
  const weakest = proofs.find(({ durability }) => durability === 'none') ?? proofs[0];
  if (weakest === undefined) throw new Error('there is no server to ask');
  const findings = proofs.flatMap((proof) => proof.findings);
  const limiting = (setting: string) =>
    findings.find((one) => one.setting === setting && one.limits);
  return {
    durability: weakest.durability,
    findings: weakest.findings.map((one) => limiting(one.setting) ?? one),
  };
}

async function proveOne(link: RedisLink): Promise<DurabilityProof> {
  const settings = await readSettings(link);
  const info = text(await link.call('INFO', 'replication'));
  if (info.includes('role:slave')) throw invalidConfig(ON_REPLICA);
  if (settings === null) {
    const says = 'CONFIG GET is not allowed here, so nothing is proven; allow it for this user';
    const finding = { setting: 'CONFIG GET', value: 'refused', limits: true, says };
    return { durability: 'none', findings: [finding] };
  }
  const appendonly = settings.get('appendonly') ?? 'no';
  const appendfsync = settings.get('appendfsync') ?? 'no';
  const policy = settings.get('maxmemory-policy') ?? '';
  const replicas = Number(/connected_slaves:(\d+)/.exec(info)?.[1] ?? 0);
  const evicts = policy !== 'noeviction';
  const findings: StoreFinding[] = [
    finding('appendonly', appendonly, appendonly !== 'yes', ADVICE.appendonly),
    finding('appendfsync', appendfsync, appendfsync !== 'always', ADVICE.appendfsync),
    finding('maxmemory-policy', policy, evicts, ADVICE.policy),
    finding('connected_slaves', String(replicas), replicas > 0, ADVICE.replicas),
  ];
  const onDisk = appendonly === 'yes' && appendfsync === 'always' && !evicts;
  // A replica that is promoted has what it had got by then, whatever its master had on disk.
  return { durability: onDisk && replicas === 0 ? 'machine' : 'none', findings };
}

function finding(setting: string, value: string, limits: boolean, advice: string): StoreFinding {
  return { setting, value, limits, says: limits ? advice : 'as it should be' };
}

async function readSettings(link: RedisLink): Promise<Map<string, string> | null> {
  const names = ['appendonly', 'appendfsync', 'maxmemory-policy'];
  try {
    const replies = await Promise.all(names.map((name) => link.call('CONFIG', 'GET', name)));
    return new Map(replies.map((reply, at) => [names[at] as string, settingIn(reply)]));
  } catch {
    return null;
  }
}

function settingIn(reply: Reply): string {
  return Array.isArray(reply) ? text(reply[1] ?? null) : '';
}

function text(reply: Reply): string {
  return Buffer.isBuffer(reply) ? reply.toString() : '';
}
