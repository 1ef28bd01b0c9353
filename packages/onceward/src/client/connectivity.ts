/** Whether it makes sense to try. A hint: `true` promises nothing. */
export interface Connectivity {
  online(): boolean;
  /** Calls back when the hint may have changed, and when the page comes to the front again. */
  listen(listener: () => void): () => void;
}

export const alwaysOnline: Connectivity = { online: () => true, listen: () => () => {} };

export function browserConnectivity(): Connectivity {
  return {
    online: () => navigator.onLine,
    listen(listener) {
      // The last one is the document's, and rises to its window.
      const ended = new AbortController();
      for (const type of ['online', 'offline', 'visibilitychange']) {
        globalThis.addEventListener(type, listener, { signal: ended.signal });
      }
      return () => ended.abort();
    },
  };
}
