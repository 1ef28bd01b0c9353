import { OncewardError } from 'onceward';

/** Every setting that is wrong, one line each, so that one start is enough to learn them all. */
export class ConfigError extends OncewardError {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super('ONCE_INVALID_CONFIG', problems.join('\n'));
    this.problems = problems;
  }
}
