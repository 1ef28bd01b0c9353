import type { Answer } from './answer.ts';
import type { Operation } from './operation.ts';

/** What the clients of a round asked for, and what they were answered. */
export class Told {
  readonly answers = new Map<Operation, Answer[]>();
  readonly complaints: string[] = [];

  asked(operation: Operation): void {
    if (!this.answers.has(operation)) this.answers.set(operation, []);
  }

  heard(operation: Operation, answer: Answer): void {
    this.asked(operation);
    if (!answer.whole) return;
    this.answers.get(operation)?.push(answer);
    if (answer.status === 500) this.complain(`${operation.name} was answered with 500`);
  }

  complain(what: string): void {
    this.complaints.push(what);
  }

  get keyed(): Operation[] {
    return [...this.answers.keys()].filter(({ keyed }) => keyed);
  }

  /** Each key ran once, as far as its callers know. */
  judge(): void {
    for (const [operation, answers] of this.answers) {
      if (!operation.keyed) continue;
      const runs = answers.map((answer) => operation.runOf(answer)).filter((run) => run !== null);
      const most = operation.toldOnce ? runs.length : new Set(runs).size;
      if (most <= 1) continue;
      const shown = runs.map((run) => run.slice(0, 80)).join(' | ');
      this.complain(`${operation.name} was answered as if it had run ${most} times: ${shown}`);
    }
  }
}
