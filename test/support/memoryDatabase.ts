import type { Database, Entry } from '../../src/storage/index.js';
import type { KeyRange } from '../../src/storage/records/schema.js';
import type { WriteBatch } from '../../src/storage/records/Database.js';

/** A database in a map, which survives whoever has it open: closing it, or not, changes nothing. */
export class MemoryDatabase implements Database {
  /** By key in Latin-1, which sorts as the bytes do. */
  readonly #values = new Map<string, Buffer>();
  #sorted: string[] | undefined;
  /** Batches that took effect. */
  writes = 0;
  /** Not yet disposed of: none may be left when the database is closed. */
  readonly openBatches = new Set<object>();
  /** Runs before a batch takes effect: wait to hold it back, throw to make it fail. */
  beforeWrite: () => Promise<void> = () => Promise.resolve();

  get(key: Buffer): Promise<Buffer | undefined> {
    return Promise.resolve(this.#values.get(key.toString('latin1')));
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
        for (const [key, value] of operations) {
          if (value === undefined) this.#values.delete(key);
          else this.#values.set(key, value);
        }
        this.#sorted = undefined;
        this.writes += 1;
      },
      [Symbol.dispose]: () => void openBatches.delete(operations),
    };
  }

  async close(): Promise<void> {
    const { size } = this.openBatches;
    if (size > 0) throw new Error(`${size} batches were neither written nor discarded`);
  }

  #entries({ gte, lt }: Partial<KeyRange>): Entry[] {
    this.#sorted ??= [...this.#values.keys()].sort();
    const from = gte === undefined ? 0 : this.#indexOf(gte.toString('latin1'));
    const to = lt === undefined ? this.#sorted.length : this.#indexOf(lt.toString('latin1'));
    return this.#sorted
      .slice(from, to)
      .map((key) => [Buffer.from(key, 'latin1'), this.#values.get(key) ?? Buffer.alloc(0)]);
  }

  #indexOf(key: string): number {
    const keys = this.#sorted ?? [];
    let low = 0;
    let high = keys.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((keys[middle] ?? '') < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
