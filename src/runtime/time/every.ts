import type { Clock, Timer } from './clock.js';

/** Acts after each `intervalMs`, until it is cancelled; the action may do that itself. */
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
