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

/** The end of an ideal pipeline: verified blocks, in the order of their heights, into LevelDB in synced groups. */
export class GroupWriter {
  readonly #batch: Batch;
  readonly #entryWriter: EntryWriter;
  readonly #onWritten: (height: number) => void;
  #waiting: BlockEntry[] = [];
  #isWriting = false;

  private constructor(batch: Batch, entryWriter: EntryWriter, onWritten: (height: number) => void) {
    this.#batch = batch;
    this.#entryWriter = entryWriter;
    this.#onWritten = onWritten;
  }

  /** `onWritten` is told the highest height of each group. */
  static async open(path: string, onWritten: (height: number) => void): Promise<GroupWriter> {
    // The store's own way of putting entries together: measured to be the quickest known.
    const { BlockEntryWriter } = (await built('storage/records/blocks/BlockEntryWriter.ts')) as {
      readonly BlockEntryWriter: new () => EntryWriter;
    };
    const level = await openLevel(path, { create: true });
    return new GroupWriter(level.batch() as unknown as Batch, new BlockEntryWriter(), onWritten);
  }

  get isFull(): boolean {
    return this.#waiting.length >= MAX_WAITING;
  }

  add(entry: BlockEntry): void {
    this.#waiting.push(entry);
    if (!this.#isWriting) void this.#writeGroups();
  }

  async #writeGroups(): Promise<void> {
    this.#isWriting = true;
    const put = (key: Buffer, value: Buffer): void => this.#batch._put(key, value);
    while (this.#waiting.length > 0) {
      const group = this.#waiting.slice(0, GROUP_BLOCKS);
      this.#waiting = this.#waiting.slice(GROUP_BLOCKS);
      for (const entry of group) this.#entryWriter.put(entry, put);
      put(PROGRESS_KEY, Buffer.alloc(PROGRESS_BYTES));
      await this.#batch._write({ sync: true });
      this.#batch._clear();
      this.#onWritten(group.at(-1)?.block.height ?? 0);
    }
    this.#isWriting = false;
  }
}
