import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FaultProxy, startFaultProxy } from './fault-proxy.ts';

/** A client that remembers what it got and how it ended. */
class Caller {
  readonly socket: Socket;
  received = '';
  ended: 'open' | 'closed' | 'reset' = 'open';

  constructor(port: number) {
    this.socket = connect({ port, host: '127.0.0.1' });
    this.socket.on('data', (chunk) => {
      this.received += chunk.toString();
    });
    this.socket.on('error', () => {
      this.ended = 'reset';
    });
    this.socket.on('close', () => {
      if (this.ended === 'open') this.ended = 'closed';
    });
  }

  send(text: string): void {
    this.socket.write(text);
  }
}

async function until(condition: () => boolean): Promise<void> {
  const limit = performance.now() + 10_000;
  while (!condition()) {
    if (performance.now() > limit) throw new Error('timed out after ten seconds');
    await sleep(5);
  }
}

describe('the fault proxy', () => {
  let echo: Server;
  let seenByServer = '';
  const serverSockets = new Set<Socket>();
  let proxy: FaultProxy;
  let caller: Caller;

  beforeEach(async () => {
    seenByServer = '';
    echo = createServer((socket) => {
      serverSockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => serverSockets.delete(socket));
      socket.on('data', (chunk) => {
        seenByServer += chunk.toString();
        socket.write(chunk);
      });
    });
    await new Promise<void>((resolve) => echo.listen(0, '127.0.0.1', resolve));
    proxy = await startFaultProxy((echo.address() as AddressInfo).port);
    caller = new Caller(proxy.port);
  });

  afterEach(async () => {
    caller.socket.destroy();
    await proxy.close();
    await new Promise((resolve) => echo.close(resolve));
  });

  it('passes bytes both ways when no fault is set', async () => {
    caller.send('hello');
    await until(() => caller.received === 'hello');
    expect(proxy.connections).toBe(1);
  });

  it('delays one direction and keeps the order', async () => {
    proxy.set({ toClient: { kind: 'delay', ms: 80 } });
    const began = performance.now();
    caller.send('a');
    await until(() => seenByServer === 'a');
    caller.send('b');
    await until(() => caller.received === 'ab');
    expect(performance.now() - began).toBeGreaterThanOrEqual(75);
  });

  it('drips a few bytes at a time', async () => {
    proxy.set({ toServer: { kind: 'drip', bytes: 2, everyMs: 10 } });
    const began = performance.now();
    caller.send('0123456789');
    await until(() => caller.received === '0123456789');
    expect(performance.now() - began).toBeGreaterThanOrEqual(38);
  });

  it('holds bytes and delivers them when the fault is lifted', async () => {
    proxy.set({ toServer: { kind: 'hold' } });
    caller.send('late');
    await sleep(50);
    expect(seenByServer).toBe('');
    proxy.set({});
    await until(() => caller.received === 'late');
  });

  it('loses bytes in a blackhole and resets the connection afterwards', async () => {
    proxy.set({ toClient: { kind: 'blackhole' } });
    caller.send('lost');
    await until(() => seenByServer === 'lost');
    await sleep(30);
    expect([caller.received, caller.ended]).toEqual(['', 'open']);
    proxy.set({});
    await until(() => caller.ended === 'reset');
    expect(caller.received).toBe('');
  });

  it('cuts a reply after so many bytes', async () => {
    proxy.set({ toClient: { kind: 'cut', afterBytes: 3 } });
    caller.send('reply');
    await until(() => caller.ended === 'reset');
    expect([seenByServer, caller.received]).toEqual(['reply', 'rep']);
  });

  it('leaves the client without a peer when half open', async () => {
    caller.send('x');
    await until(() => caller.received === 'x');
    proxy.halfOpen();
    await until(() => serverSockets.size === 0);
    caller.send('y');
    await sleep(50);
    expect([caller.received, caller.ended, seenByServer]).toEqual(['x', 'open', 'x']);
  });

  it('resets open connections and refuses new ones until the fault ends', async () => {
    caller.send('x');
    await until(() => caller.received === 'x');
    proxy.refuse(true);
    proxy.reset();
    await until(() => caller.ended === 'reset');
    const second = new Caller(proxy.port);
    await until(() => second.ended !== 'open');
    proxy.refuse(false);
    const third = new Caller(proxy.port);
    third.send('z');
    await until(() => third.received === 'z');
    third.socket.destroy();
  });
});
