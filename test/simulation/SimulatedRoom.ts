import type { Clock } from '../../src/runtime/index.js';
import { sleep } from '../../src/runtime/index.js';
import type { WriteRoom } from '../../src/storage/index.js';
import type { Dice } from './Dice.js';

/** How many of the seeds have a disk that is nearly full now and then. */
const FULL_SHARE = 0.2;
const MAX_TIMES = 3;

interface Stretch {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** A disk without room for some stretches of time, all of which end before the world is quiet. */
export class SimulatedRoom {
  readonly #full: readonly Stretch[];

  /** Drawn apart, so that a seed meets the same other faults with it as without. */
  constructor(options: { readonly quietAtMs: number; readonly isKnown: boolean }, dice: Dice) {
    const { isKnown, quietAtMs } = options;
    const isFull = dice.chance(FULL_SHARE) && !isKnown && quietAtMs > 0;
    this.#full = Array.from({ length: isFull ? dice.whole(1, MAX_TIMES) : 0 }, () => {
      const fromMs = dice.whole(0, quietAtMs - 1);
      return { fromMs, untilMs: dice.whole(fromMs + 1, quietAtMs) };
    });
  }

  /** As a process sees it by its clock; `worldClock` is that of the stretches. */
  of(clock: Clock, worldClock: Clock): WriteRoom {
    const leftMs = (): number => {
      const nowMs = worldClock.monotonic();
      const ends = this.#full.map(({ fromMs, untilMs }) => (fromMs <= nowMs ? untilMs - nowMs : 0));
      return Math.max(0, ...ends);
    };
    const wait = async (signal: AbortSignal): Promise<void> => {
      try {
        while (leftMs() > 0) await sleep(clock, leftMs(), signal);
      } catch (error) {
        if (!signal.aborted) throw error;
      }
    };
    return { whenRoom: (signal) => (leftMs() > 0 ? wait(signal) : undefined) };
  }
}
