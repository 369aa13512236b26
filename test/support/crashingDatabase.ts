import type { Database } from '../../src/storage/index.js';
import type { WriteBatch } from '../../src/storage/records/Database.js';
import { standIn } from './standIn.js';

/** Thrown by the write at which the process ends, and by all that come after it. */
export class Crash extends Error {
  override readonly name = 'Crash';
}

/** A database whose process ends at a write of the test's choice. What it stands on outlives it. */
export class CrashingDatabase {
  readonly database: Database;
  #writesLeft = Infinity;
  #isWritten = false;
  #isDead = false;

  constructor(inner: Database) {
    const batch = (): WriteBatch => {
      const own = inner.batch();
      return standIn(() => own, { write: () => this.#write(own) });
    };
    this.database = standIn(() => inner, { batch });
  }

  /** The process ends at the write after so many more: before or after that one is on the disk. */
  crashAfter(writes: number, { isWritten }: { readonly isWritten: boolean }): void {
    this.#writesLeft = writes;
    this.#isWritten = isWritten;
  }

  async #write(batch: WriteBatch): Promise<void> {
    if (this.#isDead) throw new Crash();
    this.#writesLeft -= 1;
    if (this.#writesLeft >= 0) return batch.write();
    this.#isDead = true;
    if (this.#isWritten) await batch.write();
    throw new Crash();
  }
}
