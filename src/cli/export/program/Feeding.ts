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
import { Ladder } from './Ladder.js';
import type { Rung } from './Ladder.js';
import type { SinkCommand, SinkProgram } from './SinkProgram.js';

/** Lines that the program was given and has not acknowledged: no more than these, or those of one block. */
const MAX_UNACKNOWLEDGED_LINES = 10_000;
/** Before looking again whether the index goes on. */
const LOOK_MS = 500;
/** For so long the index may end below what was given without that being a rewind: its daemon was started anew. */
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

interface Given {
  readonly rung: Rung;
  readonly lines: number;
  readonly isRewind: boolean;
}

/** One run of a program: what it was given, and what it has done of that. */
export class Feeding {
  hasAcknowledged = false;
  readonly #plan: FeedPlan;
  readonly #parts: FeedParts;
  /** In order; bounded by MAX_UNACKNOWLEDGED_LINES. */
  readonly #given: Given[] = [];
  #lines = 0;
  /** Of all that was given. */
  readonly #ladder: Ladder;
  #lowerSinceMs: number | undefined;
  #transactions = 0;
  #fault: OperatorError | undefined;
  /** What holds it up, as last told. */
  #told: string | undefined;
  #wake = (): void => undefined;

  constructor(plan: FeedPlan, parts: FeedParts) {
    this.#plan = plan;
    this.#parts = parts;
    this.#ladder = new Ladder(parts.cursor.ladder.rungs);
  }

  /** A line that the program wrote: the height that it has done, with all that it was given before. */
  acknowledge(line: string): void {
    const height = /^\d{1,16}$/.test(line.trim()) ? Number(line) : NaN;
    const index = this.#given.findIndex(({ rung }) => rung.height === height);
    if (index < 0) {
      this.#fault ??= new OperatorError(
        'program',
        `The program wrote ${quoted(line)}, which is no height that it was given and has not acknowledged. Its standard output is for ` +
          'those alone: have it write everything else to standard error.',
      );
    }
    const { cursor, progress } = this.#parts;
    for (const { rung, lines, isRewind } of this.#given.splice(0, index + 1)) {
      this.#lines -= lines;
      if (isRewind) cursor.ladder.cut(rung.height);
      if (cursor.ladder.newest?.height !== rung.height) cursor.ladder.add(rung);
      this.#transactions += isRewind ? 0 : lines - 1;
      this.hasAcknowledged = true;
    }
    if (this.hasAcknowledged) progress.at(height, this.#plan.to, this.#transactions);
    // A write that fails is told by the next one that is waited for.
    if (index >= 0) cursor.save().catch((error: unknown) => this.#fail(error));
    this.#wake();
  }

  /** Throws what is wrong with what the program wrote, or with writing it down. */
  check(): void {
    if (this.#fault !== undefined) throw this.#fault;
  }

  /**
   * Resolves with `done` when everything is acknowledged, or with what became of the program, in words that complete "The program …".
   * Expected errors: as `feedProgram`; the signal's abort reason.
   */
  async run(program: SinkProgram): Promise<string> {
    const { signal } = this.#parts;
    const over = childOf(signal);
    const ended = program.ended.then((how) => {
      over.abort();
      return this.#after(how);
    });
    const fed = this.#feed(program, over.signal).catch((error: unknown) => {
      if (wasAborted(error, over.signal) && !signal.aborted) return ended;
      throw error;
    });
    // The index may be away for long, and the program slow to take what it is given: neither holds up the end.
    const stopped = new Promise<never>((_resolve, reject) => {
      over.signal.addEventListener('abort', () => {
        this.#wake();
        if (signal.aborted) reject(abortReason(signal));
      });
    });
    stopped.catch(() => undefined);
    if (signal.aborted) throw abortReason(signal);
    try {
      return await Promise.race([fed, ended, stopped]);
    } finally {
      over.abort();
    }
  }

  /** What it wrote last is still to be looked at. */
  #after(how: string): string {
    this.check();
    return how;
  }

  async #feed(program: SinkProgram, over: AbortSignal): Promise<string> {
    const { source, signal } = this.#parts;
    const { from, to } = this.#plan;
    for (;;) {
      this.#checkAll(over);
      const last = this.#ladder.newest;
      const next = last === undefined ? from : last.height + 1;
      if (next > to) break;
      const { latest } = await source.range();
      if (last !== undefined && (await this.#goBack(last, latest, program))) continue;
      if (latest < next) {
        await sleep(systemClock, LOOK_MS, over).catch(() => undefined);
        continue;
      }
      const blocks = await this.#blocks(next, Math.min(to, latest));
      if (blocks === undefined) {
        await sleep(systemClock, LOOK_MS, over).catch(() => undefined);
        continue;
      }
      for (const entry of blocks) {
        if (!(await this.#isLinked(entry, latest, program))) break;
        await this.#give({ rung: rungOf(entry), lines: linesIn(entry), isRewind: false }, over);
        await program.write(Buffer.from(exportedLines(entry)));
      }
    }
    while (this.#given.length > 0) await this.#acknowledged(over);
    if (signal.aborted) throw abortReason(signal);
    return 'done';
  }

  /** `undefined` where the height is not there now: it was rewound, or is in a hole, which is told. */
  async #blocks(from: number, to: number): Promise<readonly BlockEntry[] | undefined> {
    try {
      return await this.#parts.source.blocks({ from, to });
    } catch (error) {
      if (!(error instanceof OperatorError) || error.exit !== 'not_found') throw error;
      if (this.#told !== error.message) this.#parts.say(`Held up: ${error.message}`);
      this.#told = error.message;
      return undefined;
    }
  }

  #checkAll(over: AbortSignal): void {
    this.check();
    const { signal } = this.#parts;
    if (signal.aborted) throw abortReason(signal);
    over.throwIfAborted();
  }

  /** The index ends lower than what was given, and stays so. */
  async #goBack(last: Rung, latest: number, program: SinkProgram): Promise<boolean> {
    if (latest >= last.height) {
      this.#lowerSinceMs = undefined;
      return false;
    }
    this.#lowerSinceMs ??= systemClock.monotonic();
    if (systemClock.monotonic() - this.#lowerSinceMs < LOWER_END_MS) return false;
    this.#lowerSinceMs = undefined;
    return this.#rewind(latest, program);
  }

  /** The root of a spork need not name the block below it; any other block that does not, has replaced it. */
  async #isLinked({ block }: BlockEntry, latest: number, program: SinkProgram): Promise<boolean> {
    const last = this.#ladder.newest;
    if (last === undefined || block.parentId === last.block_id) return true;
    if (await this.#isStill(last)) return true;
    await this.#rewind(Math.min(latest, last.height), program);
    return false;
  }

  /** Tells the program to forget what is above the highest block that the index still has. False: it has none that low. */
  async #rewind(latest: number, program: SinkProgram): Promise<boolean> {
    const candidates = this.#ladder.rungs.filter(({ height }) => height <= latest);
    for (const rung of candidates) {
      if (!(await this.#isStill(rung))) continue;
      this.#parts.say(
        `The index was rewound: the program is told to forget what is above height ${rung.height}.`,
      );
      this.#ladder.cut(rung.height);
      this.#given.push({ rung, lines: 1, isRewind: true });
      this.#lines += 1;
      await program.write(Buffer.from(`${JSON.stringify({ kind: 'rewind', ...rung })}\n`));
      return true;
    }
    if (candidates.length === 0) return false;
    throw new OperatorError(
      'foreign',
      'The index has none of the blocks that the program was given: it is of another chain. Name another file with --state, and ' +
        'have the program begin anew.',
    );
  }

  async #isStill({ height, block_id: id }: Rung): Promise<boolean> {
    try {
      await checkSame({ height, id }, this.#parts.source);
      return true;
    } catch (error) {
      if (error instanceof OperatorError && error.exit === 'foreign') return false;
      throw error;
    }
  }

  /** Waits for room. */
  async #give(given: Given, over: AbortSignal): Promise<void> {
    while (this.#given.length > 0 && this.#lines + given.lines > MAX_UNACKNOWLEDGED_LINES) {
      await this.#acknowledged(over);
    }
    this.#checkAll(over);
    this.#given.push(given);
    this.#lines += given.lines;
    this.#ladder.add(given.rung);
  }

  async #acknowledged(over: AbortSignal): Promise<void> {
    this.#checkAll(over);
    await new Promise<void>((resolve) => (this.#wake = resolve));
    this.#checkAll(over);
  }

  #fail(error: unknown): void {
    this.#fault ??= error instanceof OperatorError ? error : undefined;
    if (this.#fault === undefined) throw error;
    this.#wake();
  }
}

function rungOf({ block }: BlockEntry): Rung {
  return { height: block.height, block_id: block.id };
}

/** That of the block, and those of its transactions. */
function linesIn({ collections }: BlockEntry): number {
  return collections.reduce((sum, { ranges }) => sum + ranges.length / 2, 1);
}
