import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger, Metrics } from '../../observability/index.js';
import { messageOf, sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { readCurrentManifest } from '../files/format/currentManifest.js';
import { tableName } from '../files/format/fileNames.js';
import { checkTableInSteps, describeDamage, wrongSize } from '../files/format/tableFile.js';
import { noteSuspect } from '../files/suspects.js';
import { corruptFiles, hasCode, StorageError, storageErrorFrom } from '../StorageError.js';

/** The shortest time between the beginnings of two passes, for small stores. */
const MIN_PASS_MS = 3_600_000;
/** An unreadable manifest is read again: it may have been in the middle of a write. */
const MANIFEST_TRIES = 5;
const MANIFEST_RETRY_MS = 200;

export interface TableScrubberOptions {
  /** Directory of the database, which may be in use. */
  readonly path: string;
  /** Average read rate; 0: nothing is read. */
  readonly bytesPerSecond: number;
}

export interface TableScrubberDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'scrubbedBytes' | 'lastScrub'>;
}

/**
 * Reads all tables of a live database, oldest first, over and over, and verifies the checksums of their blocks, which
 * our build of LevelDB does not do. An open checks only the newest tables: a byte that changes in an old one would
 * otherwise hide a record until somebody runs `verify`.
 */
export class TableScrubber {
  readonly #options: TableScrubberOptions;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #metrics: TableScrubberDependencies['metrics'];

  constructor(options: TableScrubberOptions, { clock, logger, metrics }: TableScrubberDependencies) {
    this.#options = options;
    this.#clock = clock;
    this.#logger = logger;
    this.#metrics = metrics;
  }

  /**
   * Always ends by rejecting: with a `StorageError`, `corrupt` when a table is damaged (and a note is left for the next
   * open); or with the signal's abort reason. Resolves at once when there is nothing to read.
   */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#options.bytesPerSecond === 0) return;
    for (;;) {
      const startedAtMs = this.#clock.monotonic();
      const { tables, bytes } = await this.#pass(signal);
      const tookMs = this.#clock.monotonic() - startedAtMs;
      this.#metrics.lastScrub.set(Math.floor(this.#clock.now() / 1_000));
      this.#logger.debug(
        { tables, bytes, seconds: Math.round(tookMs / 1_000) },
        'all tables of the store match their checksums',
      );
      await sleep(this.#clock, Math.max(0, MIN_PASS_MS - tookMs), signal);
    }
  }

  async #pass(signal: AbortSignal): Promise<{ readonly tables: number; readonly bytes: number }> {
    const { bytesPerSecond, path } = this.#options;
    const tables = [...(await this.#tables(signal))].sort(([left], [right]) => left - right);
    let passed = 0;
    for (const [number, size] of tables) {
      await sleep(this.#clock, (size * 1_000) / bytesPerSecond, signal);
      const what = await this.#checkUnlessBusy(number, size, signal);
      if (what !== undefined) {
        const file = tableName(number);
        await this.#note(file);
        throw corruptFiles(path, `file ${file}: ${what}`);
      }
      this.#metrics.scrubbedBytes.inc(size);
      passed += size;
    }
    return { tables: tables.length, bytes: passed };
  }

  /** Without free file descriptors this table waits for the next pass; other parts report the shortage. */
  async #checkUnlessBusy(number: number, size: number, signal: AbortSignal): Promise<string | undefined> {
    try {
      return await this.#check(number, size, signal);
    } catch (error) {
      if (!(error instanceof StorageError && error.kind === 'too_many_files')) throw error;
      this.#logger.warn({ file: tableName(number), error: error.message }, 'a table could not be checked');
      return undefined;
    }
  }

  /** What is wrong with a table; `undefined` if nothing is, or if it has been merged into others since. */
  async #check(number: number, size: number, signal: AbortSignal): Promise<string | undefined> {
    if ((await this.#look(number, size, signal)) === undefined) return undefined;
    const isNamed = (await this.#tables(signal)).has(number);
    // Read again: the first read may have been at fault.
    return isNamed ? this.#look(number, size, signal) : undefined;
  }

  async #look(number: number, size: number, signal: AbortSignal): Promise<string | undefined> {
    const { path } = this.#options;
    let file: Buffer;
    try {
      file = await readFile(join(path, tableName(number)));
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return 'it is missing';
      throw storageErrorFrom(error, 'read a table of the store', path);
    }
    if (file.length !== size) return wrongSize(file.length, size);
    const steps = checkTableInSteps(file, { contents: false });
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value && [...describeDamage(step.value)][0]?.what;
      await sleep(this.#clock, 0, signal);
    }
  }

  /**
   * The tables in use, with their sizes. LevelDB writes a table before the manifest names it, and deletes it only after
   * the manifest names its successors.
   */
  async #tables(signal: AbortSignal): Promise<ReadonlyMap<number, number>> {
    const { path } = this.#options;
    for (let tries = 1; ; tries += 1) {
      const manifest = await readCurrentManifest(path).catch((error: unknown) => {
        throw storageErrorFrom(error, 'read the manifest of the store', path);
      });
      if ('content' in manifest) return manifest.content.tables;
      if (tries === MANIFEST_TRIES) throw corruptFiles(path, 'the manifest cannot be read any more');
      await sleep(this.#clock, MANIFEST_RETRY_MS, signal);
    }
  }

  /** Best effort: a disk that refuses the note must not hide the damage. */
  async #note(file: string): Promise<void> {
    try {
      await noteSuspect(this.#options.path, file);
    } catch (error) {
      this.#logger.warn({ file, error: messageOf(error) }, 'cannot write the note of a damaged table');
    }
  }
}
