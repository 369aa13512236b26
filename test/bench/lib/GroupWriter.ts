import type { BlockEntry } from '../../../src/storage/index.js';
import { built } from './limits.js';
import { progressKeyValue, StoreOnlyWriter } from './StoreOnlyWriter.js';

const GROUP_BLOCKS = 64;
/** Blocks that wait for the next groups; more, and `isFull`. */
const MAX_WAITING = 128;

interface EntryWriter {
  put(entry: BlockEntry, put: (key: Buffer, value: Buffer) => void): void;
}

/** The end of an ideal pipeline: verified blocks, in the order of their heights, into LevelDB in synced groups. */
export class GroupWriter {
  readonly #writer: StoreOnlyWriter;
  readonly #entryWriter: EntryWriter;
  readonly #onWritten: (height: number) => void;
  #waiting: BlockEntry[] = [];
  #isWriting = false;

  private constructor(
    writer: StoreOnlyWriter,
    entryWriter: EntryWriter,
    onWritten: (height: number) => void,
  ) {
    this.#writer = writer;
    this.#entryWriter = entryWriter;
    this.#onWritten = onWritten;
  }

  /** `onWritten` is told the highest height of each group. */
  static async open(path: string, onWritten: (height: number) => void): Promise<GroupWriter> {
    // The store's own way of putting entries together: measured to be the quickest known.
    const { BlockEntryWriter } = (await built('storage/records/blocks/BlockEntryWriter.ts')) as {
      readonly BlockEntryWriter: new () => EntryWriter;
    };
    return new GroupWriter(await StoreOnlyWriter.open(path), new BlockEntryWriter(), onWritten);
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
    const put = (key: Buffer, value: Buffer): void => this.#writer.put(key, value);
    while (this.#waiting.length > 0) {
      const group = this.#waiting.slice(0, GROUP_BLOCKS);
      this.#waiting = this.#waiting.slice(GROUP_BLOCKS);
      for (const entry of group) this.#entryWriter.put(entry, put);
      const latest = group.at(-1)?.block.height ?? 0;
      put(...progressKeyValue(latest));
      await this.#writer.write();
      this.#onWritten(latest);
    }
    this.#isWriting = false;
  }
}
