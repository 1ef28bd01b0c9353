const MAX_DEPTH = 200;

/**
 * JSON in one spelling (RFC 8785): members sorted by UTF-16 code units, no whitespace, numbers as ECMAScript
 * prints them. Members that are `undefined` are left out, as `JSON.stringify` does, and `toJSON` is honoured.
 * What JSON cannot carry is refused with a `TypeError` that names the place, for it would vanish in silence
 * and give two different requests one spelling.
 *
 * `omit` says which members are left out, by name, at any depth.
 */
export function canonicalJson(
  value: unknown,
  omit: (name: string) => boolean = () => false,
): string {
  return write(value, '$', [], omit);
}

function write(
  value: unknown,
  place: string,
  ancestors: readonly object[],
  omit: (name: string) => boolean,
): string {
  switch (typeof value) {
    case 'boolean':
      return String(value);
    case 'string':
      return writeString(value, place);
    case 'number':
      if (!Number.isFinite(value)) throw notJson(place, String(value));
      return JSON.stringify(value);
    case 'object':
      break;
    default:
      throw notJson(place, typeof value);
  }
  if (value === null) return 'null';
  if (ancestors.includes(value)) throw notJson(place, 'a cycle');
  if (ancestors.length === MAX_DEPTH)
    throw notJson(place, `nested deeper than ${MAX_DEPTH} levels`);
  const within = [...ancestors, value];
  if ('toJSON' in value && typeof value.toJSON === 'function') {
    return write(value.toJSON(), place, within, omit);
  }
  if (Array.isArray(value)) {
    // Array.from also visits holes, which are then refused as undefined.
    const items = Array.from(value, (item, i) => write(item, `${place}[${i}]`, within, omit));
    return `[${items.join(',')}]`;
  }
  return writeObject(value, place, within, omit);
}

function writeObject(
  value: object,
  place: string,
  within: readonly object[],
  omit: (name: string) => boolean,
): string {
  const kind = Object.prototype.toString.call(value);
  if (kind !== '[object Object]') throw notJson(place, kind.slice('[object '.length, -1));
  const members: string[] = [];
  for (const name of Object.keys(value).sort()) {
    const member = (value as Record<string, unknown>)[name];
    if (member === undefined || omit(name)) continue;
    const at = `${place}.${name}`;
    members.push(`${writeString(name, at)}:${write(member, at, within, omit)}`);
  }
  return `{${members.join(',')}}`;
}

function writeString(text: string, place: string): string {
  if (/\p{Surrogate}/u.test(text)) throw notJson(place, 'text with half of a surrogate pair');
  return JSON.stringify(text);
}

function notJson(place: string, what: string): TypeError {
  return new TypeError(`${place} is ${what}, which JSON cannot carry`);
}
