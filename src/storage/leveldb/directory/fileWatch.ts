import { opendir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { StorageError } from '../../StorageError.js';

/** An open database always has one of each. */
const NEEDED = { CURRENT: /^CURRENT$/, 'MANIFEST-*': /^MANIFEST-\d+$/, '*.log': /^\d+\.log$/ };
const TABLE = /^\d+\.(?:ldb|sst)$/;

/** Sizes by name, in bytes. A file that LevelDB deletes meanwhile has 0. */
type Files = ReadonlyMap<string, number>;
const manifestOf = (all: Files) => [...all].filter(([name]) => NEEDED['MANIFEST-*'].test(name)).join();

/**
 * Measures the files of an open database, and finds those that another program deleted: LevelDB goes on with the files that it
 * has open, and misses them at the next start. Call the result now and then; it returns bytes, `undefined` if unknown.
 * `liveTables`: the numbers of the tables that make up the database now; LevelDB needs some microseconds for each. Expected
 * errors: `StorageError` (`corrupt`), which names what is certainly gone; the signal's abort reason.
 */
export function fileWatch(path: string, liveTables: () => Promise<ReadonlySet<number>>) {
  let before: Files | undefined;
  /** Tables are gone, and LevelDB may have deleted them itself. */
  let isSuspicious = false;

  const lost = async (seen: Files, files: Files, signal: AbortSignal): Promise<readonly string[]> => {
    // One listing may miss a file that is being replaced; two do not.
    const none = Object.entries(NEEDED).find(
      ([, kind]) => ![...seen.keys(), ...files.keys()].some((name) => kind.test(name)),
    );
    if (none !== undefined) return [none[0]];
    isSuspicious ||= [...seen.keys()].some((name) => TABLE.test(name) && !files.has(name));
    // LevelDB writes to its manifest before it deletes a table: while that changes, it may have deleted the table itself.
    if (!isSuspicious || manifestOf(files) !== manifestOf(seen)) return [];
    isSuspicious = false;
    const earlier = await liveTables();
    const now = await filesIn(path, signal);
    const numbers = now ? new Set([...now.keys()].map((name) => parseInt(name, 10))) : earlier;
    const later = await liveTables();
    return [...earlier]
      .filter((number) => later.has(number) && !numbers.has(number))
      .map((number) => `${String(number).padStart(6, '0')}.ldb`);
  };

  return async (signal: AbortSignal): Promise<number | undefined> => {
    const seen = before;
    const files = (before = await filesIn(path, signal));
    // A missing directory is reported elsewhere.
    const [first, ...others] = seen && files ? await lost(seen, files, signal) : [];
    if (first !== undefined) {
      const more = others.length === 0 ? '' : ` and ${others.length} more`;
      throw new StorageError(
        'corrupt',
        `Files of the store in ${path} were deleted while it was in use: ${first}${more}. Find out what deletes files there (a clean-up of ` +
          'logs, or of old files?), then run "verify", and "repair --yes" if it finds damage: what is lost is fetched again.',
      );
    }
    return files && [...files.values()].reduce((sum, bytes) => sum + bytes, 0);
  };
}

/** Read one by one: the threads that do it also write the store. `undefined`: there is no database. */
async function filesIn(path: string, signal: AbortSignal): Promise<Files | undefined> {
  const files = new Map<string, number>();
  try {
    for await (const { name } of await opendir(path)) {
      signal.throwIfAborted();
      files.set(name, (await stat(join(path, name)).catch(() => undefined))?.size ?? 0);
    }
    return files.has('LOCK') ? files : undefined;
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}
