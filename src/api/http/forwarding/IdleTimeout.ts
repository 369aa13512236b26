import type { Clock, Timer } from '../../../runtime/index.js';

export interface IdleTimeoutDependencies {
  readonly clock: Clock;
  /** True while nothing can be expected of the other side: silence then counts from now. */
  readonly isExcused: () => boolean;
  /** Called once. */
  readonly onSilent: () => void;
}

/** Notices when nothing has moved for `limitMs`, with a single timer. */
export class IdleTimeout {
  readonly #limitMs: number;
  readonly #dependencies: IdleTimeoutDependencies;
  #movedAtMs = 0;
  #timer: Timer | undefined;

  constructor(options: { readonly limitMs: number }, dependencies: IdleTimeoutDependencies) {
    this.#limitMs = options.limitMs;
    this.#dependencies = dependencies;
  }

  /** Starts or restarts. */
  begin(): void {
    this.end();
    this.moved();
    this.#wait(this.#limitMs);
  }

  moved(): void {
    this.#movedAtMs = this.#dependencies.clock.monotonic();
  }

  end(): void {
    this.#timer?.cancel();
  }

  #wait(forMs: number): void {
    const { clock, isExcused, onSilent } = this.#dependencies;
    this.#timer = clock.setTimer(forMs, () => {
      if (isExcused()) this.moved();
      const leftMs = this.#movedAtMs + this.#limitMs - clock.monotonic();
      if (leftMs > 0) this.#wait(leftMs);
      else onSilent();
    });
  }
}
