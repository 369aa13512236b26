import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** Of each, an open database always has one. */
const NEEDED = { CURRENT: /^CURRENT$/, 'MANIFEST-*': /^MANIFEST-\d+$/, '*.log': /^\d+\.log$/ };
const TABLE = /^\d+\.(?:ldb|sst)$/;

interface Seen {
  readonly names: readonly string[];
  readonly manifest: string;
}

/**
 * Finds files of an open database that somebody else has deleted: LevelDB goes on with those that it has open, and misses them at
 * the next start. Call the result now and then: it names what is gone for sure. `liveTables`: the numbers of the tables that
 * the database consists of at this moment; LevelDB needs some microseconds for each.
 */
export function fileWatch(path: string, liveTables: () => Promise<ReadonlySet<number>>) {
  let before: Seen | undefined;
  /** Tables have gone, and it is not known yet who deleted them. */
  let isSuspicious = false;
  return async (): Promise<readonly string[]> => {
    const seen = before;
    before = await look(path);
    // Of a directory that is gone, others tell.
    if (seen === undefined || before === undefined) return [];
    const { manifest, names } = before;
    // A listing may miss a file that is just replaced; two do not.
    const none = Object.entries(NEEDED).find(
      ([, kind]) => ![...seen.names, ...names].some((name) => kind.test(name)),
    );
    if (none !== undefined) return [none[0]];
    const there = new Set(names);
    isSuspicious ||= seen.names.some((name) => TABLE.test(name) && !there.has(name));
    // LevelDB writes to its manifest before it deletes a table: while it does, there is no telling who deletes.
    if (!isSuspicious || manifest !== seen.manifest) return [];
    isSuspicious = false;
    const earlier = await liveTables();
    const numbers = new Set((await look(path))?.names.map((name) => parseInt(name, 10)) ?? earlier);
    const later = await liveTables();
    return [...earlier]
      .filter((number) => later.has(number) && !numbers.has(number))
      .map((number) => `${String(number).padStart(6, '0')}.ldb`);
  };
}

async function look(path: string): Promise<Seen | undefined> {
  const names = await readdir(path).catch((): string[] => []);
  if (!names.includes('LOCK')) return undefined;
  const manifests = names
    .filter((name) => NEEDED['MANIFEST-*'].test(name))
    .map(async (name) => {
      const { size } = (await stat(join(path, name)).catch(() => undefined)) ?? {};
      return `${name} ${size}`;
    });
  return { names, manifest: (await Promise.all(manifests)).join() };
}
