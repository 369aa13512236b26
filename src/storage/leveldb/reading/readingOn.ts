import { messageOf } from '../../../runtime/index.js';
import type { Database, Entry } from '../../records/Database.js';
import { keyAfter, type KeyRange } from '../../records/schema.js';
import { causesOf, isCorruption } from '../../StorageError.js';

/**
 * A database whose reads skip what LevelDB cannot read, as if its entries were missing, and report it to `onDamage` in words.
 * Expected errors: those of `database`, except for damage.
 */
export function readingOn(database: Database, onDamage: (damage: string) => void): Database {
  const note = (error: unknown): undefined => {
    if (!isCorruption(error)) throw error;
    onDamage(error.damage ?? messageOf(causesOf(error).at(-1)));
    return undefined;
  };
  const get = (key: Buffer): Promise<Buffer | undefined> => database.get(key).catch(note);
  const one = (range: Partial<KeyRange>): Promise<Entry | undefined> =>
    database.first(range, 1).then(([entry]) => entry, note);

  async function* pages(range: Partial<KeyRange>): ReturnType<Database['pages']> {
    let rest = range;
    try {
      for await (const page of database.pages(range)) {
        const last = page.at(-1);
        if (last !== undefined) rest = { ...range, gte: keyAfter(last[0]) };
        yield page;
      }
      return;
    } catch (error) {
      note(error);
    }
    // LevelDB returns no page in which something cannot be read: read entry by entry.
    for (let entry = await one(rest); entry !== undefined; entry = await one(rest)) {
      rest = { ...range, gte: keyAfter(entry[0]) };
      yield [entry];
    }
  }

  return {
    get,
    getMany: (keys) => database.getMany(keys).catch(() => Promise.all(keys.map(get))),
    first: async (range, limit) => {
      const entries: Entry[] = [];
      for (let rest = range; entries.length < limit;) {
        const entry = await one(rest);
        if (entry === undefined) break;
        entries.push(entry);
        rest = { ...range, gte: keyAfter(entry[0]) };
      }
      return entries;
    },
    lastKey: (range) => database.lastKey(range).catch(note),
    pages,
    compact: (range) => database.compact(range),
    batch: () => database.batch(),
    close: () => database.close(),
  };
}
