import { unlessAborted } from '../cancellation/abort.js';
import type { Clock } from './clock.js';

/** A pause that can be ended early. One sleeper at a time. */
export class Pause {
  readonly #clock: Clock;
  #wake: (() => void) | undefined;

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
  }

  /** Without a limit: until it is woken. Expected errors: the signal's abort reason. */
  sleep(delayMs: number, signal?: AbortSignal): Promise<void> {
    if (delayMs <= 0) return Promise.resolve();
    return unlessAborted(signal, (resolve) => {
      const timer = delayMs === Infinity ? undefined : this.#clock.setTimer(delayMs, resolve);
      this.#wake = resolve;
      return () => {
        timer?.cancel();
        this.#wake = undefined;
      };
    });
  }

  /** Ends the pause, if there is one. */
  wake(): void {
    this.#wake?.();
  }
}
