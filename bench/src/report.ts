/** One figure, and what it is measured against. */
export interface Figure {
  readonly bench: string;
  readonly case: string;
  readonly metric: string;
  readonly value: number;
  /** What the ratio compares with; absent when the figure stands alone. */
  readonly against?: string;
  readonly ratio?: number;
}

export type Report = (figure: Figure) => void;

/** `--json`: one object a line, for machines. Otherwise a line a person can read. */
export function makeReport(json: boolean): Report {
  return (figure) => {
    if (json) {
      const { bench, case: name, metric, value, against = null, ratio = null } = figure;
      console.log(JSON.stringify({ bench, case: name, metric, value, against, ratio }));
      return;
    }
    const compared =
      figure.ratio === undefined ? '' : `   ${figure.ratio.toFixed(2)}× ${figure.against}`;
    const value = figure.value.toLocaleString('en', {
      maximumFractionDigits: figure.value < 100 ? 2 : 0,
    });
    console.log(`${figure.case.padEnd(44)} ${value.padStart(12)} ${figure.metric}${compared}`);
  };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)]!;
}
