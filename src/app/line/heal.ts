import { WorkSignal } from '../../jobqueue/index.js';
import type { SharedQueue } from '../../ranges/index.js';
import { Pause, sleep } from '../../runtime/index.js';
import { joined, type FoundDamage, type HeightRange } from '../../storage/index.js';
import type { IndexingParts } from './runIndexing.js';

/** The most damaged heights that wait to become holes; further ones are found again later. */
const MAX_WAITING = 4_096;
/** Heights that are verified at once, and the fewest bytes that one counts as: an empty one costs time, too. */
const STEP_HEIGHTS = 8;
const LEAST_BYTES = 128;
/** How long before heights leave the index readers are notified: from then on, what they do not find counts as healing. */
const NOTICE_MS = 50;
/** The shortest time between the starts of two passes, for small stores. */
const MIN_PASS_MS = 3_600_000;
/** How often a process that does not lead checks whether it does now. */
const LOOK_EVERY_MS = 60_000;

export type Healing = ReturnType<typeof heal>;

/**
 * Turns damaged heights into holes, which the backfill fills again: those that a read meets, and those that it finds itself by
 * verifying the store continuously.
 */
export function heal(
  parts: Pick<IndexingParts, 'clock' | 'logger' | 'metrics' | 'store' | 'window'> & {
    readonly queue?: Pick<SharedQueue, 'lastPlan'> | undefined;
  },
) {
  const { clock, logger, metrics, queue, store, window } = parts;
  /** What is wrong with each height that is not a hole yet. */
  const waiting = new Map<number, string>();
  /** Notified when some of them may leave the index. */
  const wanted = new WorkSignal();
  let leaving: readonly HeightRange[] = [];
  /** There is damage at an unknown height: a pass must begin at once. */
  let isAnywhere = false;
  const mustLook = (): boolean => isAnywhere;
  const pause = new Pause(parts);

  /** The watermark cannot leave the index before the live range has grown above it. */
  const mayLeave = (height: number): boolean => height < store.latestIndexedHeight();
  const someLeave = (): boolean => [...waiting.keys()].some(mayLeave);

  const makeHoles = async (noticeMs: number): Promise<void> => {
    for (;;) {
      const damaged = [...waiting].filter(([height]) => mayLeave(height));
      if (damaged.length === 0) break;
      leaving = joined(damaged.map(([height]) => ({ from: height, to: height })));
      window.moved();
      if (noticeMs > 0) await sleep(clock, noticeMs);
      const holes = await store.heal(leaving, await queue?.lastPlan());
      for (const [height, what] of damaged) {
        waiting.delete(height);
        if (!holes.some(({ from, to }) => height >= from && height <= to)) continue;
        metrics.damagedHeights.inc();
        logger.warn({ height, damage: what }, 'a stored height is damaged: it is fetched again');
      }
    }
    leaving = [];
    window.moved();
  };
  const work = (): void => {
    if (someLeave()) wanted.notify();
  };

  /** Verifies all covered heights, newest first, a few at a time. */
  const verify = async function* (signal: AbortSignal) {
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
  };
  const scrub = async (bytesPerSecond: number, signal: AbortSignal): Promise<void> => {
    for (;;) {
      const startedAtMs = clock.monotonic();
      // Of several processes, the one that leads verifies.
      const isOurs = store.shared?.isLeading() !== false;
      metrics.scrubRate.set(isOurs ? bytesPerSecond : 0);
      if ((isOurs && bytesPerSecond > 0) || mustLook()) {
        isAnywhere = false;
        for await (const { bytes, cost, damages } of verify(signal)) {
          for (const damage of damages) found(damage);
          metrics.scrubbedBytes.inc(bytes);
          // What repairs one of a few heights may repair others, which would leave as well.
          while (damages.length < STEP_HEIGHTS && someLeave()) await sleep(clock, NOTICE_MS, signal);
          await sleep(clock, bytesPerSecond === 0 ? 1 : (cost * 1_000) / bytesPerSecond, signal);
        }
        metrics.lastScrub.set(Math.floor(clock.now() / 1_000));
        const seconds = Math.round((clock.monotonic() - startedAtMs) / 1_000);
        logger.debug({ seconds }, 'all heights of the store are verified');
      }
      const passMs = isOurs ? MIN_PASS_MS : LOOK_EVERY_MS;
      if (!mustLook()) await pause.sleep(passMs - (clock.monotonic() - startedAtMs), signal);
    }
  };

  /** Never throws, and may be called repeatedly for the same damage. */
  const found = ({ height, what }: FoundDamage): void => {
    if (height === undefined) {
      logger.debug({ damage: what }, 'damage at an unknown height: all of them are verified');
      // A pass under way continues: if every such read restarted it, none would ever reach the oldest heights.
      isAnywhere = true;
      pause.wake();
      return;
    }
    if (!waiting.has(height) && waiting.size < MAX_WAITING) waiting.set(height, what);
    work();
  };
  store.onDamage(found);
  // What was the watermark may be a hole now.
  window.onMoved(work);
  return {
    found,
    /** Damaged heights that are about to become holes. */
    leaving: (): readonly HeightRange[] => leaving,
    /**
     * Verifies the newest heights, up to `bytes`, before they are read: the process may have died while writing them. Resolves
     * when the damaged ones are holes. Call it before `run`. Expected errors: `StorageError`; the signal's abort reason.
     */
    checkNewest: async (bytes: number, signal: AbortSignal): Promise<void> => {
      let seen = 0;
      for await (const { cost, damages } of verify(signal)) {
        for (const damage of damages) found(damage);
        seen += cost;
        if (seen >= bytes) break;
      }
      if (waiting.size > 0) await makeHoles(0);
    },
    /** Turns damage that was found into holes. Expected errors: `StorageError`; the signal's abort reason, never while a hole is made. */
    run: async (signal: AbortSignal): Promise<void> => {
      for (;;) {
        await wanted.wait(signal);
        await makeHoles(NOTICE_MS);
      }
    },
    /**
     * Verifies all covered heights, newest first, continuously, at this pace; 0: only after damage at an unknown height. Rejects
     * with the signal's abort reason; expected errors: `StorageError`.
     */
    scrub,
  };
}
