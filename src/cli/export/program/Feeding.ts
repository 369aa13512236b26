import { exportedLines } from '../../../api/index.js';
import {
  abortReason,
  childOf,
  OperatorError,
  quoted,
  sleep,
  systemClock,
  wasAborted,
} from '../../../runtime/index.js';
import type { BlockEntry } from '../../../storage/index.js';
import { checkSame } from '../source/checkSame.js';
import type { ExportProgress } from '../source/exportProgress.js';
import type { ExportSource } from '../source/exportSource.js';
import type { CursorFile } from './CursorFile.js';
import { BlockLocator } from './BlockLocator.js';
import type { BlockRef } from './BlockLocator.js';
import type { SinkCommand, SinkProgram } from './SinkProgram.js';

/** Limit on the lines that the program has not acknowledged; a single block may exceed it. */
const MAX_UNACKNOWLEDGED_LINES = 10_000;
/** Pause before looking again whether the index has grown. */
const POLL_MS = 500;
/** An index that ends below what was given counts as rewound only after this time: its daemon may just have restarted. */
const LOWER_END_MS = 5_000;

export interface FeedPlan {
  readonly from: number;
  readonly to: number;
}

export interface FeedParts {
  readonly source: ExportSource;
  readonly cursor: CursorFile;
  readonly command: SinkCommand;
  readonly progress: ExportProgress;
  /** For people. */
  readonly say: (text: string) => void;
  readonly signal: AbortSignal;
}

interface SentLines {
  readonly block: BlockRef;
  readonly lines: number;
  readonly isRewind: boolean;
}

/** One run of a program: what it was given, and what it has acknowledged. */
export class Feeding {
  hasAcknowledged = false;
  readonly #plan: FeedPlan;
  readonly #parts: FeedParts;
  /** In order; bounded by MAX_UNACKNOWLEDGED_LINES. */
  readonly #unacknowledged: SentLines[] = [];
  #lines = 0;
  /** Of everything that was given. */
  readonly #locator: BlockLocator;
  #lowerSinceMs: number | undefined;
  #transactions = 0;
  #fault: OperatorError | undefined;
  /** The reason for waiting that was printed last. */
  #lastHeldUp: string | undefined;
  #wake = (): void => undefined;

  constructor(plan: FeedPlan, parts: FeedParts) {
    this.#plan = plan;
    this.#parts = parts;
    this.#locator = new BlockLocator(parts.cursor.locator.blocks);
  }

  /** Takes a line from the program: it has done this height and everything given before it. */
  acknowledge(line: string): void {
    const height = /^\d{1,16}$/.test(line.trim()) ? Number(line) : NaN;
    const index = this.#unacknowledged.findIndex(({ block }) => block.height === height);
    if (index < 0) {
      this.#fault ??= new OperatorError(
        'program',
        `The program wrote ${quoted(line)}, which is not a height that it still has to acknowledge. Its standard output is only for ` +
          'those: make it write everything else to standard error.',
      );
    }
    const { cursor, progress } = this.#parts;
    for (const { block, lines, isRewind } of this.#unacknowledged.splice(0, index + 1)) {
      this.#lines -= lines;
      if (isRewind) cursor.locator.cut(block.height);
      if (cursor.locator.newest?.height !== block.height) cursor.locator.add(block);
      this.#transactions += isRewind ? 0 : lines - 1;
      this.hasAcknowledged = true;
    }
    if (this.hasAcknowledged) progress.at(height, this.#plan.to, this.#transactions);
    // `check` reports a failed write.
    if (index >= 0) cursor.save().catch((error: unknown) => this.#fail(error));
    this.#wake();
  }

  /** Throws if the program wrote something wrong, or its progress could not be saved. */
  check(): void {
    if (this.#fault !== undefined) throw this.#fault;
  }

  /**
   * Resolves with `done` when everything is acknowledged, or with how the program ended, in words that complete "The program …".
   * Expected errors: as `feedProgram`; the signal's abort reason.
   */
  async run(program: SinkProgram): Promise<string> {
    const { signal } = this.#parts;
    const run = childOf(signal);
    const ended = program.ended.then((how) => {
      run.abort();
      // Its last line may have been wrong.
      this.check();
      return how;
    });
    const fed = this.#feed(program, run.signal).catch((error: unknown) => {
      if (wasAborted(error, run.signal) && !signal.aborted) return ended;
      throw error;
    });
    // Neither an index that does not answer nor a slow program delays the end.
    const stopped = new Promise<never>((_resolve, reject) => {
      run.signal.addEventListener('abort', () => {
        this.#wake();
        if (signal.aborted) reject(abortReason(signal));
      });
    });
    stopped.catch(() => undefined);
    if (signal.aborted) throw abortReason(signal);
    try {
      return await Promise.race([fed, ended, stopped]);
    } finally {
      run.abort();
    }
  }

  async #feed(program: SinkProgram, runSignal: AbortSignal): Promise<string> {
    const { source, signal } = this.#parts;
    const { from, to } = this.#plan;
    for (;;) {
      this.#checkAll(runSignal);
      const last = this.#locator.newest;
      const next = last === undefined ? from : last.height + 1;
      if (next > to) break;
      const { latest } = await source.range();
      if (last !== undefined && (await this.#rewindIfLower(last, latest, program))) continue;
      if (latest < next) {
        await sleep(systemClock, POLL_MS, runSignal).catch(() => undefined);
        continue;
      }
      const blocks = await this.#blocks(next, Math.min(to, latest));
      if (blocks === undefined) {
        await sleep(systemClock, POLL_MS, runSignal).catch(() => undefined);
        continue;
      }
      for (const entry of blocks) {
        if (!(await this.#isLinked(entry, latest, program))) break;
        await this.#give({ block: refOf(entry), lines: linesIn(entry), isRewind: false }, runSignal);
        await program.write(Buffer.from(exportedLines(entry)));
      }
    }
    while (this.#unacknowledged.length > 0) await this.#acknowledged(runSignal);
    if (signal.aborted) throw abortReason(signal);
    return 'done';
  }

  /** `undefined` when the height is not indexed now, because of a rewind or a hole; prints why. */
  async #blocks(from: number, to: number): Promise<readonly BlockEntry[] | undefined> {
    try {
      return await this.#parts.source.blocks({ from, to });
    } catch (error) {
      if (!(error instanceof OperatorError) || error.exit !== 'not_found') throw error;
      if (this.#lastHeldUp !== error.message) this.#parts.say(`Held up: ${error.message}`);
      this.#lastHeldUp = error.message;
      return undefined;
    }
  }

  #checkAll(runSignal: AbortSignal): void {
    this.check();
    const { signal } = this.#parts;
    if (signal.aborted) throw abortReason(signal);
    runSignal.throwIfAborted();
  }

  /** Rewinds the program when the index has ended below what was given for a while. False: it was not rewound. */
  async #rewindIfLower(last: BlockRef, latest: number, program: SinkProgram): Promise<boolean> {
    if (latest >= last.height) {
      this.#lowerSinceMs = undefined;
      return false;
    }
    this.#lowerSinceMs ??= systemClock.monotonic();
    if (systemClock.monotonic() - this.#lowerSinceMs < LOWER_END_MS) return false;
    this.#lowerSinceMs = undefined;
    return this.#rewind(latest, program);
  }

  /** Unless it is the root of a spork, a block with another parent means that the last one was replaced. */
  async #isLinked({ block }: BlockEntry, latest: number, program: SinkProgram): Promise<boolean> {
    const last = this.#locator.newest;
    if (last === undefined || block.parentId === last.block_id) return true;
    if (await this.#isStill(last)) return true;
    await this.#rewind(Math.min(latest, last.height), program);
    return false;
  }

  /** Tells the program to forget everything above the highest block that the index still has. False: it was given none that low. */
  async #rewind(latest: number, program: SinkProgram): Promise<boolean> {
    const candidates = this.#locator.blocks.filter(({ height }) => height <= latest);
    for (const block of candidates) {
      if (!(await this.#isStill(block))) continue;
      this.#parts.say(
        `The index was rewound: the program is told to forget everything above height ${block.height}.`,
      );
      this.#locator.cut(block.height);
      this.#unacknowledged.push({ block, lines: 1, isRewind: true });
      this.#lines += 1;
      await program.write(Buffer.from(`${JSON.stringify({ kind: 'rewind', ...block })}\n`));
      return true;
    }
    if (candidates.length === 0) return false;
    throw new OperatorError(
      'foreign',
      'The index has none of the blocks that the program was given: it is of another chain. Name another file with --state, and ' +
        'start the program afresh.',
    );
  }

  async #isStill({ height, block_id: id }: BlockRef): Promise<boolean> {
    try {
      await checkSame({ height, id }, this.#parts.source);
      return true;
    } catch (error) {
      if (error instanceof OperatorError && error.exit === 'foreign') return false;
      throw error;
    }
  }

  /** Waits until the limit allows more lines. */
  async #give(given: SentLines, runSignal: AbortSignal): Promise<void> {
    while (this.#unacknowledged.length > 0 && this.#lines + given.lines > MAX_UNACKNOWLEDGED_LINES) {
      await this.#acknowledged(runSignal);
    }
    this.#checkAll(runSignal);
    this.#unacknowledged.push(given);
    this.#lines += given.lines;
    this.#locator.add(given.block);
  }

  async #acknowledged(runSignal: AbortSignal): Promise<void> {
    this.#checkAll(runSignal);
    await new Promise<void>((resolve) => (this.#wake = resolve));
    this.#checkAll(runSignal);
  }

  #fail(error: unknown): void {
    this.#fault ??= error instanceof OperatorError ? error : undefined;
    if (this.#fault === undefined) throw error;
    this.#wake();
  }
}

function refOf({ block }: BlockEntry): BlockRef {
  return { height: block.height, block_id: block.id };
}

/** One for the block, and one for each transaction. */
function linesIn({ collections }: BlockEntry): number {
  return collections.reduce((sum, { ranges }) => sum + ranges.length / 2, 1);
}
