/** So many batches do not try after one that was wrong. */
const PATIENCE = 8;

/**
 * Whether claims that come together are worth trying as one command, which fails where any of the keys is taken. It is
 * guessed from how the last tries went; while in doubt, only one is in flight at a time.
 */
export class ClaimsGuess {
  #isTrusted = true;
  #isProbing = false;
  #patience = 0;
  #isForbidden = false;

  /** `true`: try, and say how it went. */
  begin(): boolean {
    if (this.#isForbidden || this.#isProbing) return false;
    if (this.#isTrusted) return true;
    if (this.#patience > 0) {
      this.#patience -= 1;
      return false;
    }
    this.#isProbing = true;
    return true;
  }

  wasRight(): void {
    this.#isTrusted = true;
    this.#isProbing = false;
  }

  wasWrong(): void {
    this.#isTrusted = false;
    this.#isProbing = false;
    this.#patience = PATIENCE;
  }

  /** The command is not available. */
  forbid(): void {
    this.#isForbidden = true;
  }
}
