import type { Clock } from '../../runtime/index.js';
import type { Logger } from '../logs/Logger.js';

/** A loss within this time after a warning is flapping, and is logged at debug. */
const QUIET_MS = 60_000;

/**
 * Logs when something is lost (warning) and when it is back (info), at most once a minute however often it flaps.
 * Readiness reports the consequences.
 */
export class EdgeLog {
  readonly #clock: Clock;
  readonly #logger: Logger;
  #warnedAtMs = -Infinity;
  #isWarned = false;

  constructor(dependencies: { readonly clock: Clock; readonly logger: Logger }) {
    this.#clock = dependencies.clock;
    this.#logger = dependencies.logger;
  }

  lost(fields: object, message: string): void {
    const nowMs = this.#clock.monotonic();
    this.#isWarned = nowMs - this.#warnedAtMs >= QUIET_MS;
    if (this.#isWarned) this.#warnedAtMs = nowMs;
    this.#logger[this.#isWarned ? 'warn' : 'debug'](fields, message);
  }

  back(fields: object, message: string): void {
    this.#logger[this.#isWarned ? 'info' : 'debug'](fields, message);
    this.#isWarned = false;
  }
}
