import { isAbort, sleep } from '../../../runtime/index.js';
import type { Clock } from '../../../runtime/index.js';
import { StorageError } from '../../../storage/index.js';
import type { SharedStore, WriteRoom } from '../../../storage/index.js';
import type { DiskPause, DiskState } from './DiskWatch.js';

/** How often the store is weighed: the server looks at the size of every file of it. */
const WEIGH_EVERY_MS = 5 * 60_000;
/** The same while it is not known. */
const WEIGH_AGAIN_MS = 5_000;

/** What a store in a database weighs, as when last looked at. Its disks are the business of whoever runs the database. */
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

  /** A database without room refuses, and is waited for. */
  whenRoom(): undefined {
    return undefined;
  }

  /** It has no disk of ours to keep free. */
  setMinFreeBytes(_bytes: number): void {
    // Nothing to set.
  }

  /** `undefined` until it was looked at. */
  storeBytes(): number | undefined {
    return this.#storeBytes;
  }

  /** Resolves when the signal aborts. No expected errors: while the database is away, the weight is the one before. */
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
