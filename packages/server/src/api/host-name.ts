const HOST_HEADER = /^(\[[0-9a-f:.]+\]|[^\s:/[\]]+)(?::\d{0,5})?$/;
const LOOPBACK_NAME = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;
const LOOPBACK_ADDRESS = /^(127\.|::1$|::ffff:127\.)/;

/** The name in a `Host` header, without its port; `null` when it is none. IPv6 addresses keep their brackets. */
export function hostNameOf(header: string | undefined): string | null {
  const name = HOST_HEADER.exec(header?.toLowerCase() ?? '')?.[1];
  return name?.replace(/\.$/, '') ?? null;
}

export function isLoopbackName(name: string | null): boolean {
  return name !== null && LOOPBACK_NAME.test(name);
}

export function isLoopbackAddress(address: string | undefined): boolean {
  return LOOPBACK_ADDRESS.test(address ?? '');
}

/** Whether a server that listens there is reached from other machines, as far as `HOST` shows. */
export function isWide(host: string): boolean {
  return !isLoopbackName(host.includes(':') ? `[${host}]` : host.toLowerCase());
}

/** The same address as a name in a `Host` header. */
export function nameOfAddress(address: string | undefined): string | null {
  if (address === undefined) return null;
  const plain = address.toLowerCase().replace(/^::ffff:(?=\d+\.)/, '');
  return plain.includes(':') ? `[${plain}]` : plain;
}
