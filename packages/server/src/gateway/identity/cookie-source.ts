import type { IncomingMessage } from 'node:http';
import {
  ABSENT,
  headerLines,
  type Identity,
  type IdentitySource,
  known,
} from './identity-source.ts';

/** The value of one cookie, such as a session id. Whether the session is still valid is not checked. */
export class CookieSource implements IdentitySource {
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
  }

  identify(request: IncomingMessage): Identity {
    // A name that comes twice may mean either to the upstream, so both are part of the scope.
    const values = headerLines(request, 'cookie')
      .flatMap((line) => line.split(';'))
      .map((pair) => pair.trim())
      .filter((pair) => pair.startsWith(`${this.#name}=`) && pair.length > this.#name.length + 1)
      .map((pair) => pair.slice(this.#name.length + 1));
    return values.length === 0 ? ABSENT : known('cookie', this.#name, values);
  }
}
