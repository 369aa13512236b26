import { DiskDatabase, SimulatedDisk } from '../simulation/SimulatedDisk.js';

/** A database in memory, which survives whoever has it open. */
export class MemoryDatabase extends DiskDatabase {
  readonly #disk: SimulatedDisk;
  /** Runs before a batch takes effect: wait to hold it back, throw to make it fail. */
  beforeWrite: () => Promise<void> = () => Promise.resolve();

  constructor() {
    const disk = new SimulatedDisk();
    super(disk);
    this.#disk = disk;
  }

  get writes(): number {
    return this.#disk.durableWrites;
  }

  /** From so many writes on, none takes effect any more: the process has ended. */
  endsAfter(writes: number, error: Error): void {
    const last = this.writes + writes;
    this.beforeWrite = () => (this.writes < last ? Promise.resolve() : Promise.reject(error));
  }

  /** Writes a record, or takes it away, behind the back of who has it open. */
  async set(key: Buffer, value: Buffer | undefined): Promise<void> {
    using batch = this.batch();
    if (value === undefined) batch.del(key);
    else batch.put(key, value);
    await batch.write();
  }

  protected override async write(...batch: Parameters<DiskDatabase['write']>): Promise<void> {
    await this.beforeWrite();
    await super.write(...batch);
  }
}
