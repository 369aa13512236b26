import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Clock } from '../../../runtime/index.js';
import { syncDirectory } from '../../files/synced.js';
import type { HeightRange } from '../../port/stored.js';
import type { HeightRanges } from '../../records/heightRanges.js';

const NAME = 'COVERAGE';
/** From a change to the writing. */
const PAUSE_MS = 250;

/**
 * A file beside the database that names heights which are durable in it. LevelDB takes a write-ahead log that is missing
 * or was cut for that of a process that wrote no more: by this note the loss has a name. It may lag behind, and is
 * missing while heights leave, so it never names too many. Nothing depends on it: a note that cannot be written or read
 * is none.
 */
export class CoverageNote {
  readonly #path: string;
  readonly #coverage: () => HeightRanges;
  readonly #clock: Clock;
  /** Set while the note is stale: it is written then. */
  #timer: ReturnType<Clock['setTimer']> | undefined;
  /** How many actions make heights leave at this moment, or have failed to. */
  #withdrawals = 0;
  /** What is done to the file, one after the other. */
  #turn: Promise<void> = Promise.resolve();

  /** `coverage`: what is durable at the moment. */
  constructor(
    { path, coverage }: { readonly path: string; readonly coverage: () => HeightRanges },
    dependencies: { readonly clock: Clock },
  ) {
    this.#path = join(path, NAME);
    this.#coverage = coverage;
    this.#clock = dependencies.clock;
  }

  /** The heights of the note in a store's directory; none where it is missing or damaged. */
  static async read(path: string): Promise<HeightRanges> {
    const text = await attempt(() => readFile(join(path, NAME), 'utf8'));
    const [ranges = '', checksum] = text?.split('\n') ?? [];
    return checksum === checksumOf(ranges) ? (JSON.parse(ranges) as HeightRange[]) : [];
  }

  /** Writes it soon. */
  changed(): void {
    this.#timer ??= this.#clock.setTimer(PAUSE_MS, () => void this.#write());
  }

  /** Does something that makes heights leave the coverage. Where it fails, the note stays away for good: some may have left. */
  async withdrawn<T>(action: () => Promise<T>): Promise<T> {
    this.#withdrawals += 1;
    await this.#inTurn(async () => {
      await rm(this.#path, { force: true });
      // A power loss must not bring it back.
      await syncDirectory(dirname(this.#path));
    });
    const result = await action();
    this.#withdrawals -= 1;
    this.changed();
    return result;
  }

  /** Writes it for the last time. */
  async end(): Promise<void> {
    if (this.#timer !== undefined) await this.#write();
    await this.#turn;
  }

  #write(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    return this.#inTurn(async () => {
      // It is written when that is over.
      if (this.#withdrawals > 0) return;
      const ranges = JSON.stringify(this.#coverage().map(({ from, to }) => ({ from, to })));
      const next = `${this.#path}.new`;
      await writeFile(next, `${ranges}\n${checksumOf(ranges)}\n`, { mode: 0o600 });
      await rename(next, this.#path);
    });
  }

  #inTurn(action: () => Promise<void>): Promise<void> {
    this.#turn = this.#turn.then(() => attempt(action));
    return this.#turn;
  }
}

function checksumOf(text: string): string {
  return crc32(text).toString(16);
}

/** `undefined` after an error of the operating system: of a full disk and the like, the database tells. */
async function attempt<T>(action: () => Promise<T>): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof Error && 'code' in error) return undefined;
    throw error;
  }
}
