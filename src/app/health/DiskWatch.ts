import { readdir, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { isAbort, sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';

/** How often the free space is looked at: a cheap question. */
const LOOK_MS = 5_000;
/** How often the store is weighed, in looks: LevelDB keeps a file for every 2 MiB. */
const LOOKS_PER_WEIGHING = 12;
/** Files that are asked for their size at once. */
const FILES_AT_ONCE = 32;

export interface DiskState {
  readonly freeBytes: number;
  readonly sizeBytes: number;
}

/** Free space of the disk that holds the store, and the weight of the store, as they were when last looked at. */
export class DiskWatch {
  readonly #path: string;
  readonly #clock: Clock;
  #disk: DiskState | undefined;
  #storeBytes: number | undefined;

  constructor(options: { readonly path: string }, dependencies: { readonly clock: Clock }) {
    this.#path = options.path;
    this.#clock = dependencies.clock;
  }

  /** `undefined` until it was looked at, and where the file system does not tell. */
  disk(): DiskState | undefined {
    return this.#disk;
  }

  storeBytes(): number | undefined {
    return this.#storeBytes;
  }

  /** Resolves when the signal aborts. No expected errors: what cannot be looked at is not known. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      for (let look = 0; ; look += 1) {
        this.#disk = await diskOf(this.#path);
        if (look % LOOKS_PER_WEIGHING === 0) this.#storeBytes = await weightOf(this.#path, signal);
        await sleep(this.#clock, LOOK_MS, signal);
      }
    } catch (error) {
      if (!isAbort(error)) throw error;
    }
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

/** The sum of the sizes of its files; one that LevelDB deletes meanwhile weighs nothing. */
async function weightOf(path: string, signal: AbortSignal): Promise<number | undefined> {
  let names: string[];
  try {
    names = await readdir(path);
  } catch {
    return undefined;
  }
  let bytes = 0;
  while (names.length > 0 && !signal.aborted) {
    const sizes = names.splice(0, FILES_AT_ONCE).map(async (name) => {
      try {
        return (await stat(join(path, name))).size;
      } catch {
        return 0;
      }
    });
    for (const size of await Promise.all(sizes)) bytes += size;
  }
  return bytes;
}
