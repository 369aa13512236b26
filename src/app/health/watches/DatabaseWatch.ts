import { isAbort, sleep } from '../../../runtime/index.js';
import type { Clock } from '../../../runtime/index.js';
import { StorageError } from '../../../storage/index.js';
import type { SharedStore, WriteRoom } from '../../../storage/index.js';
import type { DiskPause, DiskState } from './DiskWatch.js';

/** How often the size of the store is measured: the server stats all of its files. */
const WEIGH_EVERY_MS = 5 * 60_000;
/** The same, while the size is unknown. */
const WEIGH_AGAIN_MS = 5_000;

/** The size of a store in a database, as measured last. The disks of a database are not watched. */
export class DatabaseWatch implements WriteRoom {
  readonly #store: Pick<SharedStore, 'sizeBytes'>;
  readonly #clock: Clock;
  #storeBytes: number | undefined;

  constructor(dependencies: { readonly store: Pick<SharedStore, 'sizeBytes'>; readonly clock: Clock }) {
    this.#store = dependencies.store;
    this.#clock = dependencies.clock;
  }

  disk(): DiskState | undefined {
    return undefined;
  }

  get minFreeBytes(): number {
    return 0;
  }

  pause(): DiskPause | undefined {
    return undefined;
  }

  /** A database without space refuses writes, and the writer waits for it. */
  whenRoom(): undefined {
    return undefined;
  }

  setMinFreeBytes(_bytes: number): void {
    // No disk to watch.
  }

  /** `undefined` until measured. */
  storeBytes(): number | undefined {
    return this.#storeBytes;
  }

  /** Resolves when the signal aborts. No expected errors: while the database is away, the last size stays. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      for (;;) {
        const isWeighed = await this.#weigh();
        await sleep(this.#clock, isWeighed ? WEIGH_EVERY_MS : WEIGH_AGAIN_MS, signal);
      }
    } catch (error) {
      if (!isAbort(error)) throw error;
    }
  }

  async #weigh(): Promise<boolean> {
    try {
      this.#storeBytes = await this.#store.sizeBytes();
      return true;
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      return false;
    }
  }
}
