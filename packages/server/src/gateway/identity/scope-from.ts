/** What `ONCEWARD_SCOPE_FROM` says: where the identity of a caller comes from. */
export type ScopeFrom =
  | { readonly kind: 'header'; readonly names: readonly string[] }
  | { readonly kind: 'jwt'; readonly claim: string }
  | { readonly kind: 'cookie'; readonly name: string }
  | { readonly kind: 'forward-auth'; readonly url: URL };

/** A token of RFC 9110, which names of headers and of cookies are. */
const TOKEN = /^[\w!#$%&'*+.^`|~-]{1,128}$/;
const CLAIM = /^[\x21-\x7e]{1,200}$/;

/** `null`: the text is none of the four forms. */
export function parseScopeFrom(text: string): ScopeFrom | null {
  const colon = text.indexOf(':');
  const rest = text.slice(colon + 1).trim();
  switch (text.slice(0, Math.max(colon, 0)).trim()) {
    case 'header': {
      const names = rest.split(',').map((name) => name.trim().toLowerCase());
      return names.every((name) => TOKEN.test(name)) ? { kind: 'header', names } : null;
    }
    case 'jwt':
      return CLAIM.test(rest) ? { kind: 'jwt', claim: rest } : null;
    case 'cookie':
      return TOKEN.test(rest) ? { kind: 'cookie', name: rest } : null;
    case 'forward-auth': {
      const url = URL.canParse(rest) ? new URL(rest) : null;
      return url !== null && isPlainHttp(url) ? { kind: 'forward-auth', url } : null;
    }
    default:
      return null;
  }
}

/** An http or https address without a user, a password or a fragment. A query is allowed. */
export function isPlainHttp({ protocol, username, password, hash }: URL): boolean {
  const isHttp = protocol === 'http:' || protocol === 'https:';
  return isHttp && username === '' && password === '' && hash === '';
}
