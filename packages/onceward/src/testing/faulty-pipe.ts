import type { Socket } from 'node:net';
import type { EpochMs } from '../engine/units.ts';
import type { Fault } from './fault-proxy.ts';

interface Arrival {
  bytes: Buffer;
  readonly at: EpochMs;
}

/** After the last bytes before a cut were written, so long does the kernel get to deliver them. */
const CUT_LINGER_MS = 20;

/** Carries the bytes of one direction of one connection, in order, under the fault that is set at the moment. */
export class FaultyPipe {
  readonly #to: Socket;
  readonly #cut: () => void;
  readonly #queue: Arrival[] = [];
  #fault: Fault | undefined;
  #untilCut = 0;
  #nextDripAt = 0;
  #lostBytes = false;
  #discarding = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(from: Socket, to: Socket, cut: () => void) {
    this.#to = to;
    this.#cut = cut;
    from.on('data', (bytes: Buffer) => {
      if (this.#discarding) return;
      this.#queue.push({ bytes, at: performance.now() });
      this.#pump();
    });
    to.once('close', () => this.discard());
  }

  set fault(next: Fault | undefined) {
    this.#fault = next;
    if (next?.kind === 'cut') this.#untilCut = next.afterBytes;
    if (this.#lostBytes && next?.kind !== 'blackhole') this.#cut();
    else this.#pump();
  }

  /** From now on everything is thrown away. */
  discard(): void {
    this.#discarding = true;
    this.#queue.length = 0;
    clearTimeout(this.#timer);
  }

  #pump(): void {
    clearTimeout(this.#timer);
    while (!this.#discarding) {
      const head = this.#queue[0];
      if (head === undefined) return;
      const fault = this.#fault;
      const now = performance.now();
      switch (fault?.kind) {
        case 'hold':
          return;
        case 'blackhole':
          this.#lostBytes = true;
          this.#queue.length = 0;
          return;
        case 'delay':
          if (now < head.at + fault.ms) {
            this.#pumpIn(head.at + fault.ms - now);
            return;
          }
          this.#pass(head, head.bytes.length);
          break;
        case 'drip':
          if (now < this.#nextDripAt) {
            this.#pumpIn(this.#nextDripAt - now);
            return;
          }
          this.#nextDripAt = now + fault.everyMs;
          this.#pass(head, fault.bytes);
          break;
        case 'cut':
          this.#passUntilCut(head);
          break;
        default:
          this.#pass(head, head.bytes.length);
      }
    }
  }

  #pumpIn(ms: number): void {
    this.#timer = setTimeout(() => this.#pump(), ms);
  }

  #pass(head: Arrival, count: number): void {
    const passing = head.bytes.subarray(0, count);
    head.bytes = head.bytes.subarray(count);
    if (head.bytes.length === 0) this.#queue.shift();
    if (this.#to.writable) this.#to.write(passing);
  }

  #passUntilCut(head: Arrival): void {
    const count = Math.min(head.bytes.length, this.#untilCut);
    this.#untilCut -= count;
    if (count > 0) this.#pass(head, count);
    if (this.#untilCut > 0) return;
    this.discard();
    // A reset drops what is still in flight, so the last bytes get a moment to arrive.
    if (count > 0) setTimeout(this.#cut, CUT_LINGER_MS);
    else this.#cut();
  }
}
