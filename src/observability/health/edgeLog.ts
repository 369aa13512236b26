import type { Clock } from '../../runtime/index.js';
import type { Logger } from '../logs/Logger.js';

/** A loss within this time after a warning may be flapping: it is logged at debug, and as a warning if it lasts longer. */
const QUIET_MS = 60_000;

export type EdgeLog = ReturnType<typeof edgeLog>;

/**
 * Logs when something is lost (warning) and when it is back (info), at most once a minute however often it flaps. Call `lost`
 * and `back` as often as you like. Readiness reports the consequences.
 */
export function edgeLog({ clock, logger }: { readonly clock: Clock; readonly logger: Logger }) {
  let warnedAtMs = -Infinity;
  let isLost = false;
  /** The cause in the last warning. */
  let warnedCause: string | undefined;
  return {
    /** `cause`: a different one is logged as well. */
    lost: (fields: object, message: string, cause = ''): void => {
      const nowMs = clock.monotonic();
      const mayWarn = nowMs - warnedAtMs >= QUIET_MS;
      if (isLost && (!mayWarn || warnedCause === cause)) return;
      isLost = true;
      if (mayWarn) [warnedAtMs, warnedCause] = [nowMs, cause];
      logger[mayWarn ? 'warn' : 'debug'](fields, message);
    },
    back: (fields: object, message: string): void => {
      if (!isLost) return;
      logger[warnedCause === undefined ? 'debug' : 'info'](fields, message);
      isLost = false;
      warnedCause = undefined;
    },
  };
}
