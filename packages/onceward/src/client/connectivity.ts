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
      const events: [EventTarget, string][] = [
        [globalThis, 'online'],
        [globalThis, 'offline'],
      ];
      if (typeof document !== 'undefined') events.push([document, 'visibilitychange']);
      for (const [target, type] of events) target.addEventListener(type, listener);
      return () => {
        for (const [target, type] of events) target.removeEventListener(type, listener);
      };
    },
  };
}
