import { refuseUnknown } from '../../engine/known-options.ts';
import { type DurationMs, SECOND } from '../../engine/units.ts';
import { type Durability, requireDurability, type StoreFinding } from '../durability.ts';
import { invalidConfig } from '../invalid-config.ts';
import { etcdTime } from './etcd-clock.ts';
import { EtcdLink } from './etcd-link.ts';
import { EtcdStore } from './etcd-store.ts';

export type { Durability, StoreFinding } from '../durability.ts';
export type { EtcdStore } from './etcd-store.ts';

export interface EtcdStoreOptions {
  /** Client URLs of the members, `http://…` or `https://…`. */
  readonly endpoints: readonly string[];
  /** What every key begins with. */
  readonly prefix?: string;
  /** How long a call may take. */
  readonly timeoutMs?: DurationMs;
  /** Refuses to open unless the cluster proves at least this. */
  readonly durability?: Durability;
}

const KNOWN = {
  endpoints: true,
  prefix: true,
  timeoutMs: true,
  durability: true,
} satisfies Record<keyof EtcdStoreOptions, true>;

const MEMBER_LIST = '/etcdserverpb.Cluster/MemberList';

/**
 * Records in etcd 3.4 or later, for those who run one already. Each swap is one transaction of the cluster.
 *
 * ```ts
 * const store = await openEtcdStore({ endpoints: ['http://10.0.0.1:2379', 'http://10.0.0.2:2379'] });
 * ```
 */
export async function openEtcdStore(options: EtcdStoreOptions): Promise<EtcdStore> {
  refuseUnknown('the etcd store', options, KNOWN);
  const timeoutMs = options.timeoutMs ?? SECOND;
  if (!(timeoutMs > 0)) throw invalidConfig(`timeoutMs is ${timeoutMs}; it must be above 0`);
  if (options.endpoints.length === 0)
    throw invalidConfig('endpoints is empty; name at least one member');
  const link = new EtcdLink(options.endpoints, timeoutMs);
  try {
    const members = (await link.call(MEMBER_LIST, new Uint8Array(0))).messages(2).length;
    const finding = judge(members);
    // etcd syncs its log before it acknowledges, and has no setting that safely turns this off.
    const durability = members >= 3 ? 'replicated' : 'machine';
    requireDurability('etcd', options.durability, durability, [finding]);
    const prefix = options.prefix ?? 'onceward/';
    const clock = () => etcdTime(options.endpoints, timeoutMs);
    return new EtcdStore({ link, prefix, clock, durability, findings: [finding] });
  } catch (error) {
    link.close();
    throw error;
  }
}

function judge(members: number): StoreFinding {
  const limits = members < 3;
  const says = limits
    ? 'losing one member stops the cluster or its data; run three'
    : 'one member may fail; a minority refuses rather than answers';
  return { setting: 'members', value: String(members), limits, says };
}
