import type { RemoteJWKSet } from 'jose';
import { CookieSource } from './cookie-source.ts';
import { ForwardAuthSource } from './forward-auth-source.ts';
import { HeaderSource } from './header-source.ts';
import type { IdentityValues } from './identity-settings.ts';
import type { IdentitySource } from './identity-source.ts';
import { JwtSource } from './jwt-source.ts';
import { openKeySet } from './key-set.ts';
import { parseScopeFrom } from './scope-from.ts';

/** Opens the sources that the settings name. Routes with the same key set share it, and what it may ask. */
export class IdentitySources {
  readonly #keySets = new Map<string, RemoteJWKSet>();

  open(values: IdentityValues): IdentitySource {
    const from = parseScopeFrom(values.scopeFrom);
    switch (from?.kind) {
      case 'header':
        return new HeaderSource(from.names);
      case 'cookie':
        return new CookieSource(from.name);
      case 'jwt':
        return new JwtSource(from.claim, this.#keySet(values.jwks), values);
      case 'forward-auth':
        return new ForwardAuthSource({
          url: from.url,
          subjectHeader: values.forwardAuthSubject.toLowerCase(),
          timeoutMs: Math.round(values.forwardAuthTimeoutSeconds * 1_000),
        });
      case undefined:
        throw new TypeError('ONCEWARD_SCOPE_FROM was not checked');
    }
  }

  #keySet(place: string | null): RemoteJWKSet {
    if (place === null) throw new TypeError('ONCEWARD_JWKS was not checked');
    const keySet = this.#keySets.get(place) ?? openKeySet(place);
    this.#keySets.set(place, keySet);
    return keySet;
  }
}
