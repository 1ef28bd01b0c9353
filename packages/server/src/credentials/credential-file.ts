import { mkdir, open, readFile, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { OncewardError } from 'onceward';
import { z } from 'zod';
import { type StoredCredential, storedCredential } from './credential.ts';

/** Version 1 knew the slow hash alone. There is no limit to what is read: one would keep the server from starting. */
const content = z.strictObject({
  version: z.union([z.literal(1), z.literal(2)]),
  credentials: z.array(storedCredential),
});

export async function readCredentialFile(path: string): Promise<StoredCredential[]> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  const parsed = content.safeParse(parseJson(text));
  if (parsed.success) return parsed.data.credentials;
  // Starting over would lock everybody out, or give a new admin credential to the one who damaged the file.
  throw new OncewardError(
    'ONCE_INVALID_CONFIG',
    `${path} cannot be understood. Restore it from a backup, or remove it to have a new admin credential made.`,
  );
}

/** Replaces the file as a whole: a crash leaves the old one or the new one, never a part. */
export async function writeCredentialFile(
  path: string,
  credentials: readonly StoredCredential[],
): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const next = `${path}.new`;
  const file = await open(next, 'w', 0o600);
  try {
    await file.writeFile(`${JSON.stringify({ version: 2, credentials }, null, 2)}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(next, path);
  const folder = await open(dirname(path), 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
