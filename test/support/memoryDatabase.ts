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

  /** Batches that took effect. */
  get writes(): number {
    return this.#disk.durableWrites;
  }

  protected override async write(...batch: Parameters<DiskDatabase['write']>): Promise<void> {
    await this.beforeWrite();
    await super.write(...batch);
  }
}
