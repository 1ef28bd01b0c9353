import type { IncomingMessage } from 'node:http';
import {
  ABSENT,
  headerLines,
  type Identity,
  type IdentitySource,
  known,
} from './identity-source.ts';

/**
 * Headers as they are: a credential of the client, or a name that a trusted proxy set. Whether the credential is
 * still valid is not checked.
 */
export class HeaderSource implements IdentitySource {
  readonly #names: readonly string[];

  constructor(names: readonly string[]) {
    this.#names = names;
  }

  identify(request: IncomingMessage): Identity {
    const found: [name: string, lines: string[]][] = [];
    for (const name of this.#names) {
      // An empty value names no one, and would be one name for all who send it.
      const lines = headerLines(request, name).filter((line) => line !== '');
      if (lines.length > 0) found.push([name, lines]);
    }
    return found.length === 0 ? ABSENT : known('header', '', found);
  }
}
