import { SimulatedDisk } from '../simulation/SimulatedDisk.js';
import type { Database, Entry } from '../../src/storage/index.js';
import type { KeyRange } from '../../src/storage/records/schema.js';
import type { WriteBatch } from '../../src/storage/records/Database.js';

/** A database in memory, which survives whoever has it open: closing it, or not, changes nothing. */
export class MemoryDatabase implements Database {
  readonly #disk = new SimulatedDisk();
  /** Not yet disposed of: none may be left when the database is closed. */
  readonly openBatches = new Set<object>();
  /** Runs before a batch takes effect: wait to hold it back, throw to make it fail. */
  beforeWrite: () => Promise<void> = () => Promise.resolve();

  /** Batches that took effect. */
  get writes(): number {
    return this.#disk.durableWrites;
  }

  get(key: Buffer): Promise<Buffer | undefined> {
    return Promise.resolve(this.#disk.get(key));
  }

  getMany(keys: Buffer[]): Promise<(Buffer | undefined)[]> {
    return Promise.all(keys.map((key) => this.get(key)));
  }

  first(range: Partial<KeyRange>, limit: number): Promise<Entry[]> {
    return Promise.resolve(this.#entries(range).slice(0, limit));
  }

  lastKey(range: KeyRange): Promise<Buffer | undefined> {
    return Promise.resolve(this.#entries(range).at(-1)?.[0]);
  }

  async *pages(range: Partial<KeyRange>): AsyncGenerator<Entry[], void, undefined> {
    const entries = this.#entries(range);
    if (entries.length > 0) yield entries;
  }

  async *keyPages(range: Partial<KeyRange>): AsyncGenerator<Buffer[], void, undefined> {
    for await (const page of this.pages(range)) yield page.map(([key]) => key);
  }

  compact(): Promise<void> {
    return Promise.resolve();
  }

  batch(): WriteBatch {
    const operations: [string, Buffer | undefined][] = [];
    const { openBatches } = this;
    openBatches.add(operations);
    return {
      put: (key, value) => operations.push([Buffer.from(key).toString('latin1'), Buffer.from(value)]),
      del: (key) => operations.push([Buffer.from(key).toString('latin1'), undefined]),
      get length() {
        return operations.length;
      },
      write: async () => {
        await this.beforeWrite();
        this.#disk.write(operations);
        this.#disk.sync();
      },
      [Symbol.dispose]: () => void openBatches.delete(operations),
    };
  }

  async close(): Promise<void> {
    const { size } = this.openBatches;
    if (size > 0) throw new Error(`${size} batches were neither written nor discarded`);
  }

  #entries(range: Partial<KeyRange>): Entry[] {
    return this.#disk.keys(range).map((key) => [Buffer.from(key, 'latin1'), this.#disk.value(key)]);
  }
}
