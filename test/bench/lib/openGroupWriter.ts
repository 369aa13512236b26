import { openLevel } from '../../../src/storage/leveldb/directory/openLevel.js';
import type { BlockEntry } from '../../../src/storage/index.js';
import { built } from './limits.js';

const GROUP_BLOCKS = 64;
/** Blocks that wait for the next groups; more, and `isFull`. */
const MAX_WAITING = 128;
/** As the store has it: a key, and two words with a checksum. */
const PROGRESS_KEY = Buffer.of(0x02);
const PROGRESS_BYTES = 12;

interface EntryWriter {
  put(entry: BlockEntry, put: (key: Buffer, value: Buffer) => void): void;
}

/** A chained batch that is used again and again, as the product does. */
interface Batch {
  _put(key: Buffer, value: Buffer): void;
  _clear(): void;
  _write(options: { readonly sync: boolean }): Promise<void>;
}

/** Puts verified blocks, in order, into LevelDB in synced groups. `onWritten` is told the highest height of each. */
export async function openGroupWriter(path: string, onWritten: (height: number) => void) {
  // The store's own way of putting entries together: measured to be the quickest known.
  const { BlockEntryWriter } = (await built('storage/records/blocks/BlockEntryWriter.ts')) as {
    readonly BlockEntryWriter: new () => EntryWriter;
  };
  const entryWriter = new BlockEntryWriter();
  const batch = (await openLevel(path, { create: true })).batch() as unknown as Batch;
  const put = (key: Buffer, value: Buffer): void => batch._put(key, value);
  let waiting: BlockEntry[] = [];
  let isWriting = false;
  const writeGroups = async (): Promise<void> => {
    isWriting = true;
    while (waiting.length > 0) {
      const group = waiting.slice(0, GROUP_BLOCKS);
      waiting = waiting.slice(GROUP_BLOCKS);
      for (const entry of group) entryWriter.put(entry, put);
      put(PROGRESS_KEY, Buffer.alloc(PROGRESS_BYTES));
      await batch._write({ sync: true });
      batch._clear();
      onWritten(group.at(-1)?.block.height ?? 0);
    }
    isWriting = false;
  };
  return {
    isFull: () => waiting.length >= MAX_WAITING,
    add: (entry: BlockEntry): void => {
      waiting.push(entry);
      if (!isWriting) void writeGroups();
    },
  };
}
