import type { WriteBatch } from '../../src/storage/records/Database.js';
import { WrappedDatabase } from './WrappedDatabase.js';

/** Thrown by the write at which the process ends, and by all that come after it. */
export class Crash extends Error {
  override readonly name = 'Crash';
}

/** A database whose process ends at a write of the test's choice. What it stands on outlives it. */
export class CrashingDatabase extends WrappedDatabase {
  #writesLeft = Infinity;
  #isWritten = false;
  #isDead = false;

  /** The process ends at the write after so many more: before or after that one is on the disk. */
  crashAfter(writes: number, { isWritten }: { readonly isWritten: boolean }): void {
    this.#writesLeft = writes;
    this.#isWritten = isWritten;
  }

  override batch(): WriteBatch {
    const inner = super.batch();
    return {
      put: (key, value) => inner.put(key, value),
      del: (key) => inner.del(key),
      get length() {
        return inner.length;
      },
      [Symbol.dispose]: () => inner[Symbol.dispose](),
      write: async () => {
        if (this.#isDead) throw new Crash();
        this.#writesLeft -= 1;
        if (this.#writesLeft >= 0) return inner.write();
        this.#isDead = true;
        if (this.#isWritten) await inner.write();
        throw new Crash();
      },
    };
  }
}
