import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

const MIB = 1_048_576;
const NAME = 'onceward-cut-';
/** Whose folder it is: the process that made it. */
const OWNER = 'owner';
const TOOLS = ['losetup', 'mkfs.ext4', 'mount', 'umount', 'fsfreeze', 'cp'];

/** Why power cannot be cut here, or `null` when it can. */
export async function whyNoLoopDisk(): Promise<string | null> {
  if (process.platform !== 'linux') return 'loop devices are a matter of Linux';
  if (process.getuid?.() !== 0) return 'loop devices and mounts need root';
  for (const tool of TOOLS) {
    const missing = await run('which', [tool]).then(
      () => false,
      () => true,
    );
    if (missing) return `${tool} is not installed`;
  }
  try {
    await (await LoopDisk.create()).destroy();
    return null;
  } catch (error) {
    const { message, stderr } = error as Error & { stderr?: string };
    return `no loop device is to be had: ${(stderr || message).trim().split('\n')[0]}`;
  }
}

/**
 * A disk whose power can be cut at any instant, over and over, while programs go on to write to it.
 *
 * An ext4 (inner) lies in a file on another ext4 (outer), and both are on loop devices. The inner device writes past
 * the page cache of the outer one, so the file holds exactly what has reached the inner device: what the inner file
 * system still has in memory is not there. Freezing the outer file system stops the file between two requests of the
 * device, without a sync of the inner one: the copy then made is the disk as of that instant, be it in the
 * midst of a flush. Of a real disk it lacks one vice: it never loses a write that was not flushed.
 */
export class LoopDisk {
  readonly folder: string;
  /** Where programs write. */
  readonly mountPoint: string;

  private constructor(folder: string) {
    this.folder = folder;
    this.mountPoint = join(folder, 'inner');
  }

  static async create(): Promise<LoopDisk> {
    const folder = await mkdtemp(join(tmpdir(), NAME));
    await writeFile(join(folder, OWNER), String(process.pid));
    const disk = new LoopDisk(folder);
    try {
      await disk.#mountNew(join(folder, 'outer.img'), 320, join(folder, 'outer'));
      await disk.#mountNew(join(folder, 'outer', 'inner.img'), 192, disk.mountPoint);
      return disk;
    } catch (error) {
      await disk.destroy();
      throw error;
    }
  }

  /** The disk as it is at this instant, as a file of its own. */
  async cutPower(copy: string): Promise<void> {
    const outer = join(this.folder, 'outer');
    await run('fsfreeze', ['--freeze', outer]);
    try {
      await run('cp', ['--reflink=never', '--sparse=always', join(outer, 'inner.img'), copy]);
    } finally {
      await run('fsfreeze', ['--unfreeze', outer]);
    }
  }

  async destroy(): Promise<void> {
    await cleanUp(this.folder);
  }

  async #mountNew(image: string, mebibytes: number, mountPoint: string): Promise<void> {
    await writeFile(image, '');
    await truncate(image, mebibytes * MIB);
    await run('mkfs.ext4', ['-q', '-F', image]);
    await mountImage(image, mountPoint);
  }
}

/** Mounts an image on a loop device of its own; the journal of a disk that lost power is replayed here. */
export async function mountImage(image: string, mountPoint: string): Promise<string> {
  await mkdir(mountPoint, { recursive: true });
  const { stdout } = await run('losetup', ['--direct-io=on', '--find', '--show', image]);
  const device = stdout.trim();
  await run('mount', [device, mountPoint]);
  return device;
}

export async function unmountImage(device: string, mountPoint: string): Promise<void> {
  await run('umount', [mountPoint]);
  await run('losetup', ['--detach', device]);
}

/** What a run that was itself killed has left behind: folders by our name whose owner is dead. */
export async function cleanUpAfterTheDead(): Promise<void> {
  for (const entry of await readdir(tmpdir())) {
    if (!entry.startsWith(NAME)) continue;
    const folder = join(tmpdir(), entry);
    const owner = await readFile(join(folder, OWNER), 'utf8').catch(() => '');
    if (owner !== '' && !isAlive(Number(owner))) await cleanUp(folder);
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Unmounts and detaches everything under the folder, the innermost first, and removes it. */
async function cleanUp(folder: string): Promise<void> {
  const table = await readFile('/proc/mounts', 'utf8');
  const mounted = table
    .split('\n')
    .map((line) => line.split(' '))
    .filter(([, mountPoint]) => mountPoint?.startsWith(`${folder}/`));
  // A frozen disk would never let go of what lies on it. That it is not frozen is no failure.
  for (const [, mountPoint = ''] of mounted) {
    await run('fsfreeze', ['--unfreeze', mountPoint]).catch(() => undefined);
  }
  for (const [device = '', mountPoint = ''] of mounted.reverse()) {
    await run('umount', [mountPoint]);
    await run('losetup', ['--detach', device]);
  }
  await detachLoose(folder);
  await rm(folder, { recursive: true, force: true });
}

/** Devices that were attached to images of the folder, but never mounted. */
async function detachLoose(folder: string): Promise<void> {
  const { stdout } = await run('losetup', ['--list', '--noheadings', '--output', 'NAME,BACK-FILE']);
  for (const line of stdout.split('\n')) {
    const [device = '', file = ''] = line.trim().split(/\s+/);
    if (file.startsWith(`${folder}/`)) await run('losetup', ['--detach', device]);
  }
}
