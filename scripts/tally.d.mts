/** The part of the runner's JSON report that the tally reads. */
export interface Report {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly assertionResults: readonly { readonly status: string }[];
  }[];
}

export function tallyReport(run: {
  readonly report: Report | null;
  readonly runnerExit: number;
  readonly failedChecks: readonly string[];
}): { line: string; notes: string[]; exitCode: 0 | 1 };
