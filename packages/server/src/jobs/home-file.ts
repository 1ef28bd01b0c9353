import { readFileSync } from 'node:fs';
import { OncewardError } from 'onceward';
import { checkHomeTable, type HomeTable } from 'onceward/jobs';
import { z } from 'zod';

const content = z.strictObject({
  version: z.int().min(1),
  /** Every data centre and the URLs of its managers. */
  data_centres: z.record(z.string(), z.array(z.url({ protocol: /^https?$/ })).min(1)),
  homes: z.record(z.string(), z.string().nullable()).default({}),
  otherwise: z.string().default('spread'),
});

export interface HomeFile {
  /** The data centre that this process is in. */
  readonly here: string;
  readonly table: HomeTable;
  readonly managers: ReadonlyMap<string, readonly URL[]>;
}

/** Reads the table of homes. It is read at the start alone: another version is another start. */
export function readHomeFile(path: string, here: string): HomeFile {
  let parsed: z.output<typeof content>;
  try {
    parsed = content.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch (cause) {
    const why = cause instanceof z.ZodError ? z.prettifyError(cause) : (cause as Error).message;
    throw invalid(`ONCEWARD_HOMES names ${path}, which cannot be used: ${why}`, cause);
  }
  const { version, homes, otherwise, data_centres } = parsed;
  const dataCentres = Object.keys(data_centres).sort();
  if (!dataCentres.includes(here)) {
    throw invalid(`ONCEWARD_DATA_CENTRE is ${here}, which ${path} does not name`);
  }
  const urls = Object.entries(data_centres).map(
    ([name, managers]) => [name, managers.map((url) => new URL(url))] as const,
  );
  return {
    here,
    table: checkHomeTable({ version, dataCentres, homes, otherwise }),
    managers: new Map(urls),
  };
}

function invalid(message: string, cause?: unknown): OncewardError {
  return new OncewardError('ONCE_INVALID_CONFIG', message, { cause });
}
