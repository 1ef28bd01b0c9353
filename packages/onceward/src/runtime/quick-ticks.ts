import { executionAsyncResource } from 'node:async_hooks';

let kept: object | null = null;

/**
 * Node makes an object for every `process.nextTick`, always of the same shape. When no such object is alive, V8's
 * collector lets go of the shape; code that has learnt it then meets another one, and makes every later tick the slow
 * way, at five times the cost. A request has about eight of them. One that is kept keeps the shape.
 */
export function keepTicksQuick(): void {
  if (kept !== null) return;
  kept = {};
  process.nextTick(() => {
    kept = executionAsyncResource();
  });
}
