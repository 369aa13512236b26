import type { Clock, Timer } from './clock.js';

/** Runs the action after each `intervalMs` until cancelled, which the action may do itself. */
export function every(clock: Clock, intervalMs: number, action: () => void): Timer {
  let timer: Timer;
  const wait = (): void => {
    timer = clock.setTimer(intervalMs, () => {
      wait();
      action();
    });
  };
  wait();
  return { cancel: () => timer.cancel() };
}
