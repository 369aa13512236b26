/** Deadlines of the small calls that everything waits for, so that another node or another call is asked soon. */
const PATIENCE_MS = 4_000;
/** Where nobody answered in that time: they may be slow. */
const LONG_PATIENCE_MS = 8_000;
/** Silences in a row before nodes are given more time. */
const SILENCES_BEFORE_PATIENCE = 2;

/** How long to wait for an answer after so many silences in a row. */
export function patienceMs(silences: number, shortMs = PATIENCE_MS): number {
  return silences < SILENCES_BEFORE_PATIENCE ? shortMs : Math.max(shortMs, LONG_PATIENCE_MS);
}
