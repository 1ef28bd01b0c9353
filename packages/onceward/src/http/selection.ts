/** Whether a path is on the list: as it is, below a `/*`, or by a pattern. */
export function isExcluded(exclude: readonly (string | RegExp)[], path: string): boolean {
  return exclude.some((entry) => {
    if (typeof entry !== 'string') return entry.test(path);
    return entry.endsWith('/*') ? path.startsWith(entry.slice(0, -1)) : path === entry;
  });
}

/** By FNV-1a of the key, so that every arrival of one key is sampled or none is. */
export function isSampled(key: string, rate: number): boolean {
  if (rate >= 1) return true;
  let mixed = 0x811c9dc5;
  for (let i = 0; i < key.length; i += 1) {
    mixed = Math.imul(mixed ^ key.charCodeAt(i), 0x01000193);
  }
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  return ((mixed ^ (mixed >>> 13)) >>> 0) / 0x1_0000_0000 < rate;
}
