import { sleep, type Clock } from '../../src/runtime/index.js';
import type { WriteRoom } from '../../src/storage/index.js';
import type { Dice } from './Dice.js';

const FULL_SHARE = 0.2;
const MAX_TIMES = 3;

/** A disk that is full for some time before the world is quiet. Drawn apart: a seed meets the same other faults with it. */
export function roomOf(
  { isKnown, quietAtMs }: { readonly quietAtMs: number; readonly isKnown: boolean },
  dice: Dice,
): (clock: Clock, worldClock: Clock) => WriteRoom {
  const isFull = dice.chance(FULL_SHARE) && !isKnown && quietAtMs > 0;
  const full = Array.from({ length: isFull ? dice.whole(1, MAX_TIMES) : 0 }, () => {
    const fromMs = dice.whole(0, quietAtMs - 1);
    return { fromMs, untilMs: dice.whole(fromMs + 1, quietAtMs) };
  });
  return (clock, worldClock) => {
    const leftMs = (): number => {
      const nowMs = worldClock.monotonic();
      return Math.max(0, ...full.map(({ fromMs, untilMs }) => (fromMs <= nowMs ? untilMs - nowMs : 0)));
    };
    const wait = async (signal: AbortSignal): Promise<void> => {
      try {
        while (leftMs() > 0) await sleep(clock, leftMs(), signal);
      } catch (error) {
        if (!signal.aborted) throw error;
      }
    };
    return { whenRoom: (signal) => (leftMs() > 0 ? wait(signal) : undefined) };
  };
}
