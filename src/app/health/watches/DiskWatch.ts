import { opendir, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { isAbort, Listeners, sleep, unlessAborted } from '../../../runtime/index.js';
import type { Clock } from '../../../runtime/index.js';
import type { WriteRoom } from '../../../storage/index.js';

/** How often the free space is checked: the check is cheap, and a disk takes a hundred MiB a second. */
const LOOK_MS = 1_000;
/** The shortest pause between two measurements of the store's size. */
const WEIGH_EVERY_MS = 5_000;
/** A measurement that took t is followed by a pause of this many t: LevelDB keeps a file for every 2 to 4 MiB. */
const REST_PER_WEIGHING = 20;
/** Writing resumes at this multiple of the minimum, so that it does not stop again at once. */
const RESUME_AT = 1.25;

interface DiskState {
  readonly freeBytes: number;
  readonly sizeBytes: number;
}

const MIB = 1024 ** 2;

/**
 * Free space of the disk that holds the store, and the size of the store, as measured last. It pauses writes before the disk
 * is full: LevelDB needs space to compact, and a write that the disk refuses ends the daemon.
 */
export class DiskWatch implements WriteRoom {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #look: typeof diskOf;
  readonly #weigh: typeof weightOf;
  #minFreeBytes: number;
  #disk: DiskState | undefined;
  #storeBytes: number | undefined;
  #isPaused = false;
  readonly #waiting = new Listeners();

  /** `look`, `weigh`: how the disk and the store are measured. Default: by the file system. */
  constructor(
    options: {
      /** The folder of the store. */
      readonly path: string;
      /** With less free, writing pauses; 0: it never does. */
      readonly minFreeBytes: number;
    },
    dependencies: {
      readonly clock: Clock;
      readonly look?: typeof diskOf;
      readonly weigh?: typeof weightOf;
    },
  ) {
    this.#path = options.path;
    this.#minFreeBytes = options.minFreeBytes;
    this.#clock = dependencies.clock;
    this.#look = dependencies.look ?? diskOf;
    this.#weigh = dependencies.weigh ?? weightOf;
  }

  get minFreeBytes(): number {
    return this.#minFreeBytes;
  }

  /** Takes effect at once. */
  setMinFreeBytes(bytes: number): void {
    this.#minFreeBytes = bytes;
    this.#decide();
  }

  /** Why nothing is written: how much is free, how much is needed, and what to do. `undefined` while writing is not paused. */
  pause(): { readonly message: string } | undefined {
    if (!this.#isPaused) return undefined;
    const neededBytes = this.#neededBytes();
    const free = Math.floor((this.#disk?.freeBytes ?? 0) / MIB);
    const message =
      `indexing is paused: ${free} MiB are free on the disk of ${this.#path}, and ${Math.ceil(neededBytes / MIB)} MiB are needed ` +
      'to resume; free some space, or lower disk.minFreeBytes';
    return { message };
  }

  whenRoom(signal: AbortSignal): Promise<void> | undefined {
    if (!this.#isPaused || signal.aborted) return undefined;
    const room = unlessAborted(signal, (proceed) => this.#waiting.add(proceed));
    // Whoever stops goes on as well.
    return room.catch(() => undefined);
  }

  /** `undefined` until checked, and if the file system does not say. */
  disk(): DiskState | undefined {
    return this.#disk;
  }

  /** As measured last; `undefined` until then. */
  storeBytes(): number | undefined {
    return this.#storeBytes;
  }

  /** Expected errors: the signal's abort reason. What cannot be measured stays unknown. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#lookOn(signal), this.#weighOn(signal)]);
  }

  async #lookOn(signal: AbortSignal): Promise<void> {
    for (;;) {
      this.#disk = await this.#look(this.#path);
      this.#decide();
      await sleep(this.#clock, LOOK_MS, signal);
    }
  }

  /** On its own, since it may take minutes: a full disk is noticed meanwhile. */
  async #weighOn(signal: AbortSignal): Promise<void> {
    for (;;) {
      const beganAtMs = this.#clock.monotonic();
      this.#storeBytes = await this.#weigh(this.#path, signal);
      const tookMs = this.#clock.monotonic() - beganAtMs;
      await sleep(this.#clock, Math.max(WEIGH_EVERY_MS, REST_PER_WEIGHING * tookMs), signal);
    }
  }

  #neededBytes(): number {
    return Math.ceil(this.#minFreeBytes * RESUME_AT);
  }

  /** An unknown free space pauses nothing. */
  #decide(): void {
    const free = this.#disk?.freeBytes ?? Infinity;
    const least = this.#isPaused ? this.#neededBytes() : this.#minFreeBytes;
    this.#isPaused = free < least;
    if (!this.#isPaused) this.#waiting.tell();
  }
}

async function diskOf(path: string): Promise<DiskState | undefined> {
  try {
    const { bavail, blocks, bsize } = await statfs(path);
    return { freeBytes: bavail * bsize, sizeBytes: blocks * bsize };
  } catch {
    return undefined;
  }
}

/**
 * The sum of the sizes of its files, read one by one: the threads that do it also write the store. A file that LevelDB deletes
 * meanwhile counts as 0.
 */
async function weightOf(path: string, signal: AbortSignal): Promise<number | undefined> {
  try {
    let bytes = 0;
    for await (const { name } of await opendir(path)) {
      signal.throwIfAborted();
      bytes += await stat(join(path, name)).then(
        ({ size }) => size,
        () => 0,
      );
    }
    return bytes;
  } catch (error) {
    if (isAbort(error)) throw error;
    return undefined;
  }
}
