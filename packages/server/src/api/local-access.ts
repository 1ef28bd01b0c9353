import type { FastifyRequest } from 'fastify';
import type { Settings } from '../config/settings.ts';
import { hostNameOf, isLoopbackAddress, isLoopbackName, isWide } from './host-name.ts';
import { Problem } from './problem.ts';

/** Added by proxies, whose client may be anywhere. */
const FORWARDING =
  /^(forwarded|via|x-forwarded(-.+)?|x-real-ip|x-client-ip|x-cluster-client-ip|true-client-ip|cf-connecting-ip)$/;

/** Why a request needs a credential, although it comes from this machine; `undefined` when it needs none. */
export type LocalAccess = (request: FastifyRequest) => Problem | undefined;

/**
 * A first try needs no credential: callers on this machine may use jobs and the demo without one. Not those whom a
 * proxy on this machine speaks for, nor pages of other sites in a browser on it, nor anybody once `HOST` lets other
 * machines in.
 */
export function localAccess(settings: Pick<Settings, 'host' | 'localAccess'>): LocalAccess {
  if (!settings.localAccess) return () => refusal('ONCEWARD_LOCAL_ACCESS is off');
  if (isWide(settings.host)) return () => refusal('HOST lets other machines in');
  return (request) => {
    if (!isLoopbackAddress(request.socket.remoteAddress)) {
      return refusal('this request comes from another');
    }
    const { headers } = request;
    if (!isLoopbackName(hostNameOf(headers.host))) {
      return refusal('Host must be localhost, 127.0.0.1 or [::1]');
    }
    for (const name in headers) {
      if (FORWARDING.test(name)) return refusal(`${name} says that this request was passed on`);
    }
    return isCrossSite(headers)
      ? refusal('this request comes from a page of another site')
      : undefined;
  };
}

/** Browsers say it in `Sec-Fetch-Site`; older ones only where the page is from. */
function isCrossSite({ host, origin, 'sec-fetch-site': site }: FastifyRequest['headers']): boolean {
  if (site !== undefined) return site !== 'same-origin' && site !== 'none';
  return origin !== undefined && origin.toLowerCase() !== `http://${host?.toLowerCase()}`;
}

function refusal(why: string): Problem {
  const rule = 'only callers on this machine need no credential (ONCEWARD_LOCAL_ACCESS)';
  return new Problem('forbidden', `${rule}, and ${why}`);
}
