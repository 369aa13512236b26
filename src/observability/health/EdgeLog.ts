import type { Clock } from '../../runtime/index.js';
import type { Logger } from '../logs/Logger.js';

/** A loss within this time after a warning may be flapping: it is logged at debug, and as a warning if it lasts longer. */
const QUIET_MS = 60_000;

/**
 * Logs when something is lost (warning) and when it is back (info), at most once a minute however often it flaps. Call `lost`
 * and `back` as often as you like. Readiness reports the consequences.
 */
export class EdgeLog {
  readonly #clock: Clock;
  readonly #logger: Logger;
  #warnedAtMs = -Infinity;
  #isLost = false;
  /** The cause in the last warning. */
  #warnedCause: string | undefined;

  constructor(dependencies: { readonly clock: Clock; readonly logger: Logger }) {
    this.#clock = dependencies.clock;
    this.#logger = dependencies.logger;
  }

  /** `cause`: a different one is logged as well. */
  lost(fields: object, message: string, cause = ''): void {
    const nowMs = this.#clock.monotonic();
    const mayWarn = nowMs - this.#warnedAtMs >= QUIET_MS;
    if (this.#isLost && (!mayWarn || this.#warnedCause === cause)) return;
    this.#isLost = true;
    if (mayWarn) [this.#warnedAtMs, this.#warnedCause] = [nowMs, cause];
    this.#logger[mayWarn ? 'warn' : 'debug'](fields, message);
  }

  back(fields: object, message: string): void {
    if (!this.#isLost) return;
    this.#logger[this.#warnedCause === undefined ? 'debug' : 'info'](fields, message);
    this.#isLost = false;
    this.#warnedCause = undefined;
  }
}
