import { childOf, sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';

/** A pause that can be ended early. One sleeper at a time. */
export class Pause {
  readonly #clock: Clock;
  #wake: (() => void) | undefined;

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
  }

  /** Expected errors: the signal's abort reason. */
  async sleep(delayMs: number, signal: AbortSignal): Promise<void> {
    if (delayMs <= 0) return;
    const woken = childOf(signal);
    this.#wake = () => woken.abort();
    try {
      await sleep(this.#clock, delayMs, woken.signal);
    } catch (error) {
      if (signal.aborted || !woken.signal.aborted) throw error;
    } finally {
      this.#wake = undefined;
      woken.abort();
    }
  }

  /** Ends the pause, if there is one. */
  wake(): void {
    this.#wake?.();
  }
}
