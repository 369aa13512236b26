import { copyFile, link, mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode, StorageError, storageErrorFrom } from '../StorageError.js';
import { syncDirectory, syncFile, writeSynced } from './synced.js';

const MANIFEST_FILE = /^MANIFEST-\d+$/;
const TABLE_FILE = /^\d+\.(?:ldb|sst)$/;
const LOG_FILE = /^\d+\.log$/;

/** How often the database may change its tables before they are linked. */
const ATTEMPTS_MAX = 300;
const LINKS_AT_ONCE = 32;
/** Errors of `link` after which the bytes are copied instead: links are not possible here, or an earlier attempt has copied them. */
const NO_LINK = ['EXDEV', 'EPERM', 'ENOTSUP', 'EMLINK', 'ENOSYS', 'EEXIST'];
const NO_ROOM = ['ENOSPC', 'EDQUOT', 'EROFS'];

export interface CopiedFiles {
  readonly tables: number;
  /** Bytes of the tables that are hard links, which take no space. */
  readonly linkedBytes: number;
  /** Bytes of everything else. */
  readonly copiedBytes: number;
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
 * hard links where the file system allows it; `linksOnly`: it must. The copy keeps what is missing or damaged. Expected
 * errors: `StorageError`; the signal's abort reason.
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
    const [links, copies] = [new Map<string, number>(), new Map<string, number>()];
    let bytes = 0;
    const write = async (name: string, content: Buffer): Promise<void> => {
      await writeSynced(join(copy, name), content);
      copies.set(name, content.length);
    };
    const logs = (await readdir(path)).filter((name) => LOG_FILE.test(name));
    logs.sort((left, right) => numberOf(left) - numberOf(right));
    for (const name of logs) {
      const content = await ifThere(() => readFile(join(path, name)));
      // One that is deleted meanwhile is in the tables of the manifest, which is read later.
      if (content !== undefined) await write(name, content);
    }
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
      const description = await describe(path);
      const newest = Math.max(...[...logs.slice(0, 1), ...description.keys()].map(numberOf));
      const names = (await readdir(path)).filter((name) => TABLE_FILE.test(name) && !links.has(name));
      for (let at = 0; at < names.length; at += LINKS_AT_ONCE) {
        const copying = names.slice(at, at + LINKS_AT_ONCE).map(async (name) => {
          const [from, to] = [join(path, name), join(copy, name)];
          // It grows while it is written, and may have been copied then. A link is the table itself.
          if (copies.has(name) && copies.get(name) === (await ifThere(() => stat(from)))?.size) return;
          const way = numberOf(name) < newest ? (linksOnly ? 'link' : 'either') : 'copy';
          const isLink = await ifThere(() => copyTable(from, to, way));
          if (isLink === undefined) return;
          const { size } = await stat(to);
          (isLink ? links : copies).set(name, size);
          if (!isLink) bytes += size;
        });
        await Promise.all(copying);
        onProgress?.({ phase: 'copy', bytes });
        signal?.throwIfAborted();
      }
      const now = await describe(path);
      const isSame = ([name, content]: [string, Buffer]): boolean => now.get(name)?.equals(content) === true;
      if (now.size !== description.size || ![...description].every(isSame)) continue;
      for (const [name, content] of description) await write(name, content);
      await syncDirectory(copy);
      const tables = [...links.keys(), ...copies.keys()].filter((name) => TABLE_FILE.test(name)).length;
      return { tables, linkedBytes: sumOf(links), copiedBytes: sumOf(copies) };
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
  const add = async (name: string): Promise<Buffer | undefined> => {
    const content = await ifThere(() => readFile(join(path, name)));
    if (content !== undefined) description.set(name, content);
    return content;
  };
  const name = (await add('CURRENT'))?.toString('latin1').trimEnd() ?? '';
  if (MANIFEST_FILE.test(name)) await add(name);
  return description;
}

/**
 * True for a link. Only a table whose number is below one that the manifest counts as used may be one: LevelDB gives the numbers
 * above to the tables that it writes when it opens the copy, and would overwrite such a link in the database as well.
 */
async function copyTable(from: string, to: string, way: 'link' | 'either' | 'copy'): Promise<boolean> {
  try {
    if (way !== 'copy') {
      await link(from, to);
      return true;
    }
  } catch (error) {
    if (way === 'link' || !NO_LINK.some((code) => hasCode(error, code))) throw error;
  }
  await copyFile(from, to);
  await syncFile(to);
  return false;
}

/** `undefined` for what is missing, or has been deleted. Expected errors: those of the file system. */
async function ifThere<T>(action: () => Promise<T>): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

function sumOf(files: ReadonlyMap<string, number>): number {
  return [...files.values()].reduce((sum, size) => sum + size, 0);
}
