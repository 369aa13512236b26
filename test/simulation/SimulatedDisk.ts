import type { Database, Entry } from '../../src/storage/index.js';
import type { KeyRange } from '../../src/storage/records/schema.js';
import type { WriteBatch } from '../../src/storage/records/Database.js';
import { storageErrorFrom } from '../../src/storage/StorageError.js';
import { sleep, type Clock } from '../../src/runtime/index.js';

export interface WriteFate {
  /** Until the operating system has it: it then survives the end of the process, but no loss of power. */
  readonly writtenMs: number;
  /** From there until the disk has it. */
  readonly syncedMs: number;
  /** From there until the process hears of it. */
  readonly toldMs: number;
  /** The process hears of a failure; whether the disk has the write is another matter. */
  readonly failure?: { readonly text: string; readonly isWritten: boolean } | undefined;
}

export interface ReadFate {
  readonly failure?: string | undefined;
  readonly takesMs: number;
}

export interface DiskDependencies {
  readonly clock: Clock;
  readonly writeFate: () => WriteFate;
  /** Default: none takes time, or fails. */
  readonly readFate?: () => ReadFate;
  /** A write has come so far; whoever is told may end the process there. */
  readonly onStage?: (stage: WriteStage) => void;
}

/** How far a write has come: asked for, with the operating system, on the disk, and about to be told. */
export type WriteStage = 'begun' | 'written' | 'durable' | 'told';

type Operation = readonly [key: string, value: Buffer | undefined];

/** The disk below all incarnations of one store: what was synced, and what was written and not yet synced. */
export class SimulatedDisk {
  readonly #values = new Map<string, Buffer>();
  /** Ascending. Keys are Latin-1 texts, which compare as their bytes do. */
  readonly #keys: string[] = [];
  #unsynced: readonly Operation[] | undefined;
  durableWrites = 0;

  get size(): number {
    return this.#keys.length;
  }

  get(key: Uint8Array): Buffer | undefined {
    return this.#values.get(text(key));
  }

  /** A disk with the same on it, without what is not synced. */
  copy(): SimulatedDisk {
    const disk = new SimulatedDisk();
    for (const key of this.#keys) {
      disk.#keys.push(key);
      disk.#values.set(key, this.value(key));
    }
    return disk;
  }

  keys(range: Partial<KeyRange>): string[] {
    const { gte, lt } = range as { gte?: Buffer; lt?: Buffer };
    const from = gte === undefined ? 0 : this.#indexOf(text(gte));
    const to = lt === undefined ? this.#keys.length : this.#indexOf(text(lt));
    return this.#keys.slice(from, to);
  }

  value(key: string): Buffer {
    return this.#values.get(key)!;
  }

  write(operations: readonly Operation[]): void {
    this.#unsynced = operations;
  }

  sync(): void {
    const operations = this.#unsynced ?? [];
    this.#unsynced = undefined;
    for (const [key, value] of operations) {
      const isKnown = this.#values.has(key);
      if (value === undefined) {
        this.#values.delete(key);
        if (isKnown) this.#keys.splice(this.#indexOf(key), 1);
      } else {
        this.#values.set(key, value);
        if (!isKnown) this.#keys.splice(this.#indexOf(key), 0, key);
      }
    }
    this.durableWrites += 1;
  }

  /** The process is gone. What was written stays, unless power went as well and takes it away. */
  afterCrash({ loses }: { readonly loses: boolean }): void {
    if (this.#unsynced === undefined) return;
    if (loses) this.#unsynced = undefined;
    else this.sync();
  }

  #indexOf(key: string): number {
    let low = 0;
    let high = this.#keys.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#keys[middle]! < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** A database on this disk, which survives whoever has it open: closing it, or not, changes nothing. */
export class DiskDatabase implements Database {
  readonly #disk: SimulatedDisk;
  /** Not yet disposed of: none may be left when the database is closed. */
  readonly openBatches = new Set<readonly Operation[]>();

  constructor(disk: SimulatedDisk) {
    this.#disk = disk;
  }

  get(key: Buffer): Promise<Buffer | undefined> {
    return this.read(() => this.#disk.get(key));
  }

  getMany(keys: Buffer[]): Promise<(Buffer | undefined)[]> {
    return this.read(() => keys.map((key) => this.#disk.get(key)));
  }

  first(range: Partial<KeyRange>, limit: number): Promise<Entry[]> {
    return this.read(() => this.#entries(range).slice(0, limit));
  }

  lastKey(range: KeyRange): Promise<Buffer | undefined> {
    return this.read(() => this.#disk.keys(range).slice(-1).map(bytes)[0]);
  }

  async *pages(range: Partial<KeyRange>): AsyncGenerator<Entry[], void, undefined> {
    const entries = await this.read(() => this.#entries(range));
    if (entries.length > 0) yield entries;
  }

  compact(): Promise<void> {
    return Promise.resolve();
  }

  batch(): WriteBatch {
    const operations: Operation[] = [];
    const { openBatches } = this;
    openBatches.add(operations);
    return {
      put: (key, value) => operations.push([text(key), Buffer.from(value)]),
      del: (key) => operations.push([text(key), undefined]),
      get length() {
        return operations.length;
      },
      write: () => this.write(operations),
      [Symbol.dispose]: () => void openBatches.delete(operations),
    };
  }

  async close(): Promise<void> {
    const { size } = this.openBatches;
    if (size > 0) throw new Error(`${size} batches were neither written nor discarded`);
  }

  /** The values themselves: whoever changes one changes what is on the disk. */
  protected read<T>(answer: () => T): Promise<T> {
    return Promise.resolve(answer());
  }

  protected async write(operations: readonly Operation[]): Promise<void> {
    this.#disk.write(operations);
    this.#disk.sync();
  }

  #entries(range: Partial<KeyRange>): Entry[] {
    return this.#disk.keys(range).map((key) => [bytes(key), this.#disk.value(key)]);
  }
}

export class SimulatedDatabase extends DiskDatabase {
  readonly #disk: SimulatedDisk;
  readonly #deps: DiskDependencies;
  /** Looked at again after each wait. */
  readonly #life = { isOver: false };
  isClosed = false;
  /** As LevelDB does it: one write at a time reaches the log. */
  #writing: Promise<void> | undefined;

  constructor(disk: SimulatedDisk, dependencies: DiskDependencies) {
    super(disk);
    this.#disk = disk;
    this.#deps = dependencies;
  }

  /** The process died: nothing is told any more, and what was not written yet never will be. */
  kill(): void {
    this.#life.isOver = true;
  }

  override async close(): Promise<void> {
    await super.close();
    this.isClosed = true;
  }

  protected override async read<T>(answer: () => T): Promise<T> {
    this.#assertOpen();
    const { failure, takesMs } = this.#deps.readFate?.() ?? { failure: undefined, takesMs: 0 };
    if (takesMs > 0) await sleep(this.#deps.clock, takesMs);
    if (this.#hasDied()) return never();
    if (failure !== undefined) throw storageErrorFrom(new Error(failure), 'read the store', DISK_PATH);
    return answer();
  }

  protected override async write(operations: readonly Operation[]): Promise<void> {
    this.#assertOpen();
    while (this.#writing !== undefined) await this.#writing;
    const writing = this.#writeAlone(operations);
    const ended = (): void => void (this.#writing = undefined);
    this.#writing = writing.then(ended, ended);
    await writing;
  }

  async #writeAlone(operations: readonly Operation[]): Promise<void> {
    const { clock, onStage = () => undefined, writeFate } = this.#deps;
    const { writtenMs, syncedMs, toldMs, failure } = writeFate();
    onStage('begun');
    if (this.#hasDied()) return never();
    await sleep(clock, writtenMs);
    if (failure?.isWritten !== false) {
      this.#disk.write(operations);
      onStage('written');
      if (this.#hasDied()) return never();
      await sleep(clock, syncedMs);
      this.#disk.sync();
      onStage('durable');
      if (this.#hasDied()) return never();
    }
    await sleep(clock, toldMs);
    onStage('told');
    if (this.#hasDied()) return never();
    if (failure !== undefined)
      throw storageErrorFrom(new Error(failure.text), 'write to the store', DISK_PATH);
  }

  #hasDied(): boolean {
    return this.#life.isOver;
  }

  #assertOpen(): void {
    if (this.isClosed) throw new Error('the database is closed');
  }
}

export const DISK_PATH = '/simulated';

const never = (): Promise<never> => new Promise(() => undefined);

function text(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1');
}

const bytes = (key: string): Buffer => Buffer.from(key, 'latin1');
