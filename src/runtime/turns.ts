import type { Clock } from './clock.js';

/**
 * Turns of the event loop as a dependency. What a connection is to send leaves it between two turns only, and servers
 * answer between two turns only: whoever works through a burst of answers in a single turn keeps its node waiting
 * meanwhile, and waits for it afterwards.
 */
export interface Turns {
  /** Runs the callback once everything that is due by now has had its turn. */
  next(callback: () => void): void;
}

/** The turns that a clock knows: those of the process's event loop, or of a simulated one. */
export function turnsOf(clock: Clock): Turns {
  return {
    next: (callback) => {
      clock.setTimer(0, callback);
    },
  };
}

/** No turns: at once. For what has nobody to make way for. */
export const noTurns: Turns = {
  next: (callback) => callback(),
};
