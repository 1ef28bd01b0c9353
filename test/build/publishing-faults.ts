import { readFile } from 'node:fs/promises';
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import type { PackedPackages } from './packed-packages.ts';

/** What publint has to say about a package that was built. */
export async function publishingFaults(packed: PackedPackages, folder: string): Promise<string[]> {
  const { messages, pkg } = await publint({ pkgDir: packed.folder(folder), strict: true });
  return messages.map((message) => formatMessage(message, pkg, { color: false }) ?? message.code);
}

/** What attw has to say about a package that was packed. */
export async function typeFaults(packed: PackedPackages, folder: string): Promise<string[]> {
  const tarball = new Uint8Array(await readFile(packed.tarball(folder)));
  const result = await checkPackage(createPackageFromTarballData(tarball));
  if (result.types === false) throw new Error('attw found no types');
  return (
    result.problems
      // A compiler that does not read the export map finds no subpath of any package.
      .filter((problem) => !('resolutionKind' in problem && problem.resolutionKind === 'node10'))
      .map((problem) => `${problem.kind} ${'entrypoint' in problem ? problem.entrypoint : ''}`)
  );
}
