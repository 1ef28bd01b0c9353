/** What the writers have reported, kept where no crash of theirs can reach it. */
export class Testimony {
  /** Answers that were given, by key. */
  readonly answers = new Map<string, string>();
  /** Fences under which the effect of a key happened. */
  readonly effects = new Map<string, string>();
  readonly complaints: string[] = [];
  highest = -1;
  refused = 0;
  #opened = false;

  get opened(): boolean {
    return this.#opened;
  }

  beginLife(): void {
    this.#opened = false;
  }

  hear(line: string): void {
    const [kind, key = '', rest = ''] = line.split(' ');
    if (kind === 'open') {
      this.#opened = true;
      return;
    }
    this.highest = Math.max(this.highest, Number(key.slice(1)));
    if (kind === 'E') this.#hearEffect(key, rest);
    else if (kind === 'A') this.#hearAnswer(key, rest);
    else if (kind === 'R') this.#hearRefusal(key, rest);
    else this.complaints.push(`a line that means nothing: ${line}`);
  }

  #hearEffect(key: string, fence: string): void {
    const before = this.effects.get(key);
    if (before !== undefined) {
      this.complaints.push(`${key} was claimed twice: fences ${before} and ${fence}`);
    }
    this.effects.set(key, fence);
  }

  #hearAnswer(key: string, answer: string): void {
    const before = this.answers.get(key);
    if (before !== undefined && before !== answer) {
      this.complaints.push(`${key} was answered ${before}, then ${answer}`);
    }
    this.answers.set(key, answer);
  }

  #hearRefusal(key: string, reason: string): void {
    this.refused += 1;
    if (this.answers.has(key)) {
      this.complaints.push(`${key} had been answered and is now refused: ${reason}`);
    }
  }

  /** As it stands now; what is heard later does not change it. */
  soFar(): { readonly answers: Map<string, string>; readonly effects: Map<string, string> } {
    return { answers: new Map(this.answers), effects: new Map(this.effects) };
  }
}
