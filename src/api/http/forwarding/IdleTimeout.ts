import type { Clock, Timer } from '../../../runtime/index.js';

/** Notices when nothing has moved for `limitMs`, with a single timer. */
export class IdleTimeout {
  readonly #limitMs: number;
  readonly #clock: Clock;
  readonly #isExcused: () => boolean;
  readonly #onSilent: () => void;
  #movedAtMs = 0;
  #timer: Timer | undefined;

  constructor(
    options: { readonly limitMs: number },
    dependencies: {
      readonly clock: Clock;
      /** True while nothing can be expected of the other side: silence then counts from now. */
      readonly isExcused: () => boolean;
      /** Called once. */
      readonly onSilent: () => void;
    },
  ) {
    this.#limitMs = options.limitMs;
    this.#clock = dependencies.clock;
    this.#isExcused = dependencies.isExcused;
    this.#onSilent = dependencies.onSilent;
  }

  /** Starts or restarts. */
  begin(): void {
    this.end();
    this.moved();
    this.#wait(this.#limitMs);
  }

  moved(): void {
    this.#movedAtMs = this.#clock.monotonic();
  }

  end(): void {
    this.#timer?.cancel();
  }

  #wait(forMs: number): void {
    this.#timer = this.#clock.setTimer(forMs, () => {
      if (this.#isExcused()) this.moved();
      const leftMs = this.#movedAtMs + this.#limitMs - this.#clock.monotonic();
      if (leftMs > 0) this.#wait(leftMs);
      else this.#onSilent();
    });
  }
}
