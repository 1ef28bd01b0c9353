import type { Settings } from '../config/settings.ts';
import { hostNameOf, isLoopbackName, isWide, nameOfAddress } from './host-name.ts';
import { Problem } from './problem.ts';

/** What a request says about the server that it is meant for. */
export interface Addressed {
  /** `Host`, or `:authority`. */
  readonly host: string | undefined;
  readonly socket: { readonly localAddress?: string | undefined };
}

export type HostCheck = (request: Addressed) => Problem | undefined;

/**
 * A page of a stranger can have its own name lead to this machine (DNS rebinding) and then be of the same origin as
 * this server. Its requests still carry the stranger's name in `Host`, so names that are not allowed are refused. An
 * address cannot be made to lead elsewhere: the one that the connection has is always right.
 */
export function hostCheck(settings: Pick<Settings, 'host' | 'allowedHosts'>): HostCheck {
  const { host, allowedHosts } = settings;
  const allowed = new Set(allowedHosts.map((name) => name.toLowerCase()));
  // A server open to other machines without `allowedHosts` is reached under names that we do not know.
  if (allowed.size === 0 && isWide(host)) return () => undefined;
  let lastRight: string | undefined;
  return ({ host: header, socket }) => {
    // HTTP/1.0 has no such header, and no browser speaks it.
    if (header === undefined || header === lastRight) return undefined;
    const name = hostNameOf(header);
    if (name !== null && (isLoopbackName(name) || allowed.has(name))) {
      lastRight = header;
      return undefined;
    }
    if (name !== null && name === nameOfAddress(socket.localAddress)) return undefined;
    return new Problem(
      'misdirected-request',
      'this server is not known under the name in Host; ONCEWARD_ALLOWED_HOSTS names those it has beside localhost',
    );
  };
}
