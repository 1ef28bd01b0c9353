import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** Makes instruments that carry our prefix and belong to one registry. */
export interface Instruments {
  counter(name: string, help: string, labels?: Labels): Counter;
  gauge(name: string, help: string, labels?: readonly string[], collect?: Collect): Gauge;
  histogram(
    name: string,
    help: string,
    buckets: readonly number[],
    labels?: readonly string[],
  ): Histogram;
}

/**
 * The label and the values it can have. A counter that is absent until something goes wrong cannot be alarmed on, so
 * all of them begin at zero.
 */
export type Labels = readonly [label: string, values: readonly string[]];

type Collect = (self: Gauge) => void | Promise<void>;

export function instrumentsOf(registry: Registry): Instruments {
  const registers = [registry];
  return {
    counter(name, help, labels) {
      const labelNames = labels === undefined ? [] : [labels[0]];
      const counter = new Counter({ name: `onceward_${name}`, help, labelNames, registers });
      if (labels !== undefined) {
        for (const value of labels[1]) counter.inc({ [labels[0]]: value }, 0);
      }
      return counter;
    },
    gauge(name, help, labelNames = [], collect = () => {}) {
      return new Gauge({
        name: `onceward_${name}`,
        help,
        labelNames,
        registers,
        collect() {
          return collect(this);
        },
      });
    },
    histogram(name, help, buckets, labelNames = []) {
      return new Histogram({
        name: `onceward_${name}`,
        help,
        labelNames,
        buckets: [...buckets],
        registers,
      });
    },
  };
}
