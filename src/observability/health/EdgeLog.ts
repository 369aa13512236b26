import type { Clock } from '../../runtime/index.js';
import type { Logger } from '../logs/Logger.js';

/** A loss within this time after a warning may be flapping: it is logged at debug, and warned of if it lasts longer. */
const QUIET_MS = 60_000;

/**
 * Logs when something is lost (warning) and when it is back (info), at most once a minute however often it flaps. Both may be
 * told as often as they are seen. Readiness reports the consequences.
 */
export class EdgeLog {
  readonly #clock: Clock;
  readonly #logger: Logger;
  #warnedAtMs = -Infinity;
  #isLost = false;
  /** The cause that was warned of. */
  #warnedOf: string | undefined;

  constructor(dependencies: { readonly clock: Clock; readonly logger: Logger }) {
    this.#clock = dependencies.clock;
    this.#logger = dependencies.logger;
  }

  /** `cause`: another one is warned of as well. */
  lost(fields: object, message: string, cause = ''): void {
    const nowMs = this.#clock.monotonic();
    const mayWarn = nowMs - this.#warnedAtMs >= QUIET_MS;
    if (this.#isLost && (!mayWarn || this.#warnedOf === cause)) return;
    this.#isLost = true;
    if (mayWarn) [this.#warnedAtMs, this.#warnedOf] = [nowMs, cause];
    this.#logger[mayWarn ? 'warn' : 'debug'](fields, message);
  }

  back(fields: object, message: string): void {
    if (!this.#isLost) return;
    this.#logger[this.#warnedOf === undefined ? 'debug' : 'info'](fields, message);
    this.#isLost = false;
    this.#warnedOf = undefined;
  }
}
