import { readFileSync } from 'node:fs';

export interface ConfigFile {
  readonly path: string;
  readonly values: Readonly<Record<string, unknown>>;
  /** As written; `routes.ts` knows what they mean. */
  readonly routes: unknown;
}

const LARGEST = 1_048_576;

/** Reads the settings file: one JSON object, with the same names as the environment, and `routes`. */
export function readConfigFile(path: string, problems: string[]): ConfigFile | null {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    problems.push(`ONCEWARD_CONFIG names ${path}, which cannot be read (${code})`);
    return null;
  }
  if (text.length > LARGEST) {
    problems.push(
      `ONCEWARD_CONFIG names ${path}, which has more than ${LARGEST} characters; is it the right file?`,
    );
    return null;
  }
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (error) {
    problems.push(`${path} is not valid JSON: ${(error as Error).message}`);
    return null;
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    problems.push(`${path} must hold one JSON object, such as {"PORT": 8080}`);
    return null;
  }
  const { routes, ...values } = content as Record<string, unknown>;
  return { path, values, routes };
}
