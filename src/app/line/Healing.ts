import type { SharedQueue } from '../../ranges/index.js';
import { Pause, sleep } from '../../runtime/index.js';
import { joined } from '../../storage/index.js';
import type { FoundDamage, HeightRange } from '../../storage/index.js';
import type { IndexingParts } from './runIndexing.js';

/** Damaged heights that wait to become holes; others are found again. */
const MAX_WAITING = 4_096;
/** Heights that are verified at once, and the least bytes that one counts as: an empty one costs time, too. */
const STEP_HEIGHTS = 8;
const LEAST_BYTES = 128;
/** How long readers are told of heights that leave before these do: by then, what they do not find is healing. */
const TELL_MS = 50;
/** The shortest time between the beginnings of two passes, for small stores. */
const MIN_PASS_MS = 3_600_000;
/** How often a process that does not lead looks whether it does now. */
const LOOK_EVERY_MS = 60_000;

type HealingParts = Pick<IndexingParts, 'clock' | 'lifecycle' | 'logger' | 'metrics' | 'store' | 'window'> & {
  readonly queue?: Pick<SharedQueue, 'lastPlan'> | undefined;
};

/**
 * Makes holes of damaged heights, which the backfill fills again: those that a read meets, and those that it finds itself,
 * verifying the store over and over.
 */
export class Healing {
  readonly #parts: HealingParts;
  /** What is wrong with each height that is not a hole yet. */
  readonly #waiting = new Map<number, string>();
  #isAtWork = false;
  #leaving: readonly HeightRange[] = [];
  /** Damage was met at an unknown height: a pass is to begin at once. */
  #isAnywhere = false;
  readonly #pause: Pause;
  /** What reads or writes the store at this moment. */
  readonly #running = new Set<Promise<unknown>>();

  constructor(parts: HealingParts) {
    const { lifecycle, store, window } = parts;
    this.#parts = parts;
    this.#pause = new Pause(parts);
    store.onDamage((damage) => this.found(damage));
    // What was the watermark may be a hole now.
    window.onMoved(() => this.#work());
    // The store closes next.
    lifecycle.onClose('healing', async () => {
      await Promise.allSettled(this.#running);
    });
  }

  /** Does not throw, and may be told the same again. */
  found({ height, what }: FoundDamage): void {
    if (height === undefined) {
      this.#parts.logger.debug({ damage: what }, 'damage at an unknown height: all of them are verified');
      // A pass under way goes on: begun anew by every such read, none would ever reach the oldest heights.
      this.#isAnywhere = true;
      this.#pause.wake();
      return;
    }
    this.#wait({ height, what });
    this.#work();
  }

  /**
   * Verifies the newest heights, of so many bytes, before anybody reads them: the process may have ended while they were
   * written. Resolves when the damaged ones are holes. Expected errors: `StorageError`; the signal's abort reason.
   */
  checkNewest(bytes: number, signal: AbortSignal): Promise<void> {
    return this.#run(async () => {
      let seen = 0;
      for await (const { cost, damages } of this.#look(signal)) {
        for (const damage of damages) this.#wait(damage);
        seen += cost;
        if (seen >= bytes) break;
      }
      if (this.#waiting.size > 0) await this.#heal(0);
    });
  }

  /**
   * Verifies all covered heights, newest first, over and over, at this pace; 0: only when damage was met at an unknown height. Rejects
   * with the signal's abort reason; expected errors: `StorageError`.
   */
  scrub(bytesPerSecond: number, signal: AbortSignal): Promise<void> {
    return this.#run(() => this.#scrub(bytesPerSecond, signal));
  }

  async #scrub(bytesPerSecond: number, signal: AbortSignal): Promise<void> {
    const { clock, logger, metrics, store } = this.#parts;
    for (;;) {
      const startedAtMs = clock.monotonic();
      // Of several processes, the one that leads verifies.
      const isOurs = store.shared?.isLeading() !== false;
      metrics.scrubRate.set(isOurs ? bytesPerSecond : 0);
      if ((isOurs && bytesPerSecond > 0) || this.#isAnywhere) {
        this.#isAnywhere = false;
        await this.#pass(bytesPerSecond, signal);
        metrics.lastScrub.set(Math.floor(clock.now() / 1_000));
        logger.debug(
          { seconds: Math.round((clock.monotonic() - startedAtMs) / 1_000) },
          'all heights of the store are verified',
        );
      }
      const passMs = isOurs ? MIN_PASS_MS : LOOK_EVERY_MS;
      if (this.#hasMetDamage()) continue;
      await this.#pause.sleep(passMs - (clock.monotonic() - startedAtMs), signal);
    }
  }

  #hasMetDamage(): boolean {
    return this.#isAnywhere;
  }

  async #pass(bytesPerSecond: number, signal: AbortSignal): Promise<void> {
    const { clock, metrics } = this.#parts;
    for await (const { bytes, cost, damages } of this.#look(signal)) {
      for (const damage of damages) this.found(damage);
      metrics.scrubbedBytes.inc(bytes);
      await sleep(clock, bytesPerSecond === 0 ? 1 : (cost * 1_000) / bytesPerSecond, signal);
    }
  }

  /** Verifies all covered heights, newest first, a few at a time. */
  async *#look(signal: AbortSignal) {
    const { store } = this.#parts;
    let next = store.latestIndexedHeight();
    for (;;) {
      const below = next;
      const range = store.coverage().findLast(({ from }) => from <= below);
      if (range === undefined) return;
      const to = Math.min(range.to, next);
      const from = Math.max(range.from, to - STEP_HEIGHTS + 1);
      const { bytes, damages } = await store.check({ from, to }, signal);
      next = from - 1;
      yield { bytes, cost: Math.max(bytes, LEAST_BYTES * (to - from + 1)), damages };
    }
  }

  #wait({ height, what }: FoundDamage): void {
    if (height === undefined || this.#waiting.has(height) || this.#waiting.size >= MAX_WAITING) return;
    this.#waiting.set(height, what);
  }

  #work(): void {
    if (this.#isAtWork || ![...this.#waiting.keys()].some((height) => this.#mayLeave(height))) return;
    this.#parts.lifecycle.supervise(this.#run(() => this.#heal(TELL_MS)));
  }

  async #run(begin: () => Promise<void>): Promise<void> {
    const work = begin();
    this.#running.add(work);
    try {
      await work;
    } finally {
      this.#running.delete(work);
    }
  }

  /** The watermark cannot leave the index before the live range has grown above it. */
  #mayLeave(height: number): boolean {
    return height < this.#parts.store.latestIndexedHeight();
  }

  /** Damaged heights that are about to become holes. */
  leaving(): readonly HeightRange[] {
    return this.#leaving;
  }

  async #heal(tellMs: number): Promise<void> {
    const { clock, logger, metrics, queue, store, window } = this.#parts;
    this.#isAtWork = true;
    try {
      for (;;) {
        const damaged = [...this.#waiting].filter(([height]) => this.#mayLeave(height));
        if (damaged.length === 0) break;
        const wanted = joined(damaged.map(([height]) => ({ from: height, to: height })));
        this.#leaving = wanted;
        window.moved();
        if (tellMs > 0) await sleep(clock, tellMs);
        const holes = await store.heal(wanted, await queue?.lastPlan());
        for (const [height, what] of damaged) {
          this.#waiting.delete(height);
          if (!isIn(holes, height)) continue;
          metrics.damagedHeights.inc();
          logger.warn({ height, damage: what }, 'a stored height is damaged: it is fetched again');
        }
      }
    } finally {
      this.#isAtWork = false;
      this.#leaving = [];
    }
    window.moved();
  }
}

function isIn(ranges: readonly HeightRange[], height: number): boolean {
  return ranges.some(({ from, to }) => height >= from && height <= to);
}
