/** A stream whose next message is overdue for this long is reopened. */
export const STREAM_SILENT_MS = 5_000;
/** Deadline of the small calls that everything waits for, so that another node or call is tried soon. */
const PATIENCE_MS = 4_000;
/** The deadline when no node answered in that time: the nodes may be slow. */
const LONG_PATIENCE_MS = 8_000;
/** Consecutive silences before nodes get more time. */
const SILENCES_BEFORE_PATIENCE = 2;

/** How long to wait for an answer after this many consecutive silences. */
export function patienceMs(silences: number, shortMs = PATIENCE_MS): number {
  return silences < SILENCES_BEFORE_PATIENCE ? shortMs : Math.max(shortMs, LONG_PATIENCE_MS);
}
