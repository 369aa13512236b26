import { copyFile, link, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode, StorageError, storageErrorFrom } from '../StorageError.js';
import { syncDirectory, syncFile, writeSynced } from './synced.js';

const MANIFEST_FILE = /^MANIFEST-\d+$/;
const TABLE_FILE = /^\d+\.(?:ldb|sst)$/;
const LOG_FILE = /^\d+\.log$/;

/** How often the database may change its tables before they are linked. */
const ATTEMPTS_MAX = 300;
const LINKS_AT_ONCE = 32;
/** Errors of `link` after which the bytes are copied instead: links are not possible here. */
const NO_LINK = ['EXDEV', 'EPERM', 'ENOTSUP', 'EMLINK', 'ENOSYS'];

const NO_ROOM = ['ENOSPC', 'EDQUOT', 'EROFS'];

export interface CopiedFiles {
  readonly tables: number;
  /** Bytes of the tables that are hard links, which take no space. */
  readonly linkedBytes: number;
  /** Bytes of everything else. */
  readonly copiedBytes: number;
}

interface CopiedFile {
  readonly bytes: number;
  readonly isLink: boolean;
}

/** CURRENT and the manifest that it names: which tables make up the database at one moment. */
type Description = ReadonlyMap<string, Buffer>;

/**
 * Fills a new directory with a copy of a database that may be in use, by this process or another. The copy is the
 * database as a crash during the call would have left it: whole batches, with none missing before the last. It also has
 * tables that are not part of the database, which LevelDB removes when it opens the copy.
 *
 * The logs are copied first, so everything in them that is moved to tables meanwhile is in the tables of the manifest,
 * which is read after them; if it changes while the tables are linked, they are linked again. Tables never change and become
 * hard links where the file system allows it; `linksOnly`: it must. What is missing or damaged in the database is so in the copy. Expected errors:
 * `StorageError`; the signal's abort reason.
 */
export async function copyFiles(
  path: string,
  copy: string,
  {
    linksOnly = false,
    onProgress,
    signal,
  }: {
    readonly linksOnly?: boolean;
    readonly onProgress?:
      ((progress: { readonly phase: 'copy'; readonly bytes: number }) => void) | undefined;
    readonly signal?: AbortSignal;
  } = {},
): Promise<CopiedFiles> {
  try {
    await mkdir(copy, { mode: 0o700 });
    const files = new Map<string, CopiedFile>();
    let bytes = 0;
    const write = async (name: string, content: Buffer): Promise<void> => {
      await writeSynced(join(copy, name), content);
      files.set(name, { bytes: content.length, isLink: false });
    };
    const logs = (await readdir(path)).filter((name) => LOG_FILE.test(name));
    logs.sort((left, right) => numberOf(left) - numberOf(right));
    for (const name of logs) {
      const content = await readIfThere(join(path, name));
      // One that is deleted meanwhile is in the tables of the manifest, which is read later.
      if (content !== undefined) await write(name, content);
    }
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
      const description = await describe(path);
      const newest = Math.max(...[...logs.slice(0, 1), ...description.keys()].map(numberOf));
      const names = (await readdir(path)).filter((name) => TABLE_FILE.test(name) && !files.has(name));
      for (let at = 0; at < names.length; at += LINKS_AT_ONCE) {
        const copying = names.slice(at, at + LINKS_AT_ONCE).map(async (name) => {
          const mayLink = numberOf(name) < newest;
          const copied = await copyTable(path, copy, name, { mayLink, linksOnly });
          if (copied === undefined) return;
          files.set(name, copied);
          if (!copied.isLink) bytes += copied.bytes;
        });
        await Promise.all(copying);
        onProgress?.({ phase: 'copy', bytes });
        signal?.throwIfAborted();
      }
      const now = await describe(path);
      const isSame = ([name, bytes]: [string, Buffer]): boolean => now.get(name)?.equals(bytes) === true;
      if (now.size !== description.size || ![...description].every(isSame)) {
        // It may have been copied while it was written. A link is the table itself.
        for (const [name, { isLink }] of files) if (!isLink && TABLE_FILE.test(name)) files.delete(name);
        continue;
      }
      for (const [name, content] of description) await write(name, content);
      await syncDirectory(copy);
      const found = { tables: 0, linkedBytes: 0, copiedBytes: 0 };
      for (const [name, { bytes: size, isLink }] of files) {
        if (TABLE_FILE.test(name)) found.tables += 1;
        found[isLink ? 'linkedBytes' : 'copiedBytes'] += size;
      }
      return found;
    }
  } catch (error) {
    // Only writes to the copy can fail like this.
    if (NO_ROOM.some((code) => hasCode(error, code)))
      throw storageErrorFrom(error, 'write a copy of the store', copy);
    throw storageErrorFrom(error, 'copy the files of the store', path);
  }
  throw new StorageError(
    'io',
    `The files of ${path} change faster than they can be linked. Try again later.`,
  );
}

/** The number in the name of a file; -1 without one. */
function numberOf(name: string): number {
  return Number(/\d+/.exec(name)?.[0] ?? -1);
}

async function describe(path: string): Promise<Description> {
  const description = new Map<string, Buffer>();
  const current = await readIfThere(join(path, 'CURRENT'));
  if (current === undefined) return description;
  description.set('CURRENT', current);
  const name = current.toString('latin1').trimEnd();
  const manifest = MANIFEST_FILE.test(name) ? await readIfThere(join(path, name)) : undefined;
  if (manifest !== undefined) description.set(name, manifest);
  return description;
}

/**
 * `undefined` when it has been deleted. `mayLink`: its number is below one that the manifest counts as used. LevelDB gives the
 * numbers above to the tables that it writes when it opens the copy: one of them, if it were a link, would be overwritten in the
 * database as well.
 */
async function copyTable(
  path: string,
  copy: string,
  name: string,
  { mayLink, linksOnly }: { readonly mayLink: boolean; readonly linksOnly: boolean },
): Promise<CopiedFile | undefined> {
  const [from, to] = [join(path, name), join(copy, name)];
  try {
    const isLink = mayLink && (await isLinked(from, to, linksOnly));
    if (!isLink) {
      await copyFile(from, to);
      await syncFile(to);
    }
    return { bytes: (await stat(to)).size, isLink };
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error;
    await rm(to, { force: true });
    return undefined;
  }
}

/** False where links are not possible. */
async function isLinked(from: string, to: string, mustBe: boolean): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    if (mustBe || !NO_LINK.some((code) => hasCode(error, code))) throw error;
    return false;
  }
}

/** `undefined` for a file that is missing. Expected errors: those of the file system. */
async function readIfThere(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}
