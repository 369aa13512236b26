import { sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';

/** Shares the event loop with others while something large is made, piece by piece. */
export interface Turns {
  /**
   * Does a piece of work that takes the event loop: at once where that may be, and then what comes back is the result itself; else
   * in its turn. Throws, or rejects, with what the task throws.
   */
  work<T>(task: () => T): T | Promise<T>;
  /** Between two long pieces: everything that is due has its turn. */
  pause(): Promise<void>;
  /** An answer of this size is about to be sent. */
  sends(bytes: number): void;
}

/** Turns of someone who has the process for himself. */
export function freeTurns(dependencies: { readonly clock: Clock }): Turns {
  return {
    work: (task) => task(),
    pause: () => sleep(dependencies.clock, 0),
    sends: () => undefined,
  };
}
