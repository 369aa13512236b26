import * as t from '../schema.js';

/** Cells of the window in one status: of a larger window, a cell covers several heights. */
export const MAX_WINDOW_CELLS = 512;

/** The states of a height in the window, in order. */
export const windowStates = ['waiting', 'linked', 'collecting', 'complete', 'committing', 'durable'] as const;
export type WindowState = (typeof windowStates)[number];

const windowCell = t.object({
  from: t.count,
  to: t.count,
  state: t.note(
    'waiting: its block is not here yet. linked: it is, and work on it has not begun. collecting: it lacks collections. complete: it waits for a batch. committing: it is being written. durable: it waits for the heights below. Of several heights, that of the one that has come least far.',
    t.words(...windowStates),
  ),
  missing: t.note('Collections that it lacks.', t.count),
  ageSeconds: t.note('Since work on it began; null before.', t.orNull(t.amount)),
  reason: t.note(
    'What it waits for and why, where that is the lowest height or one that has lacked collections for a while.',
    t.orNull(t.text),
  ),
});
export type WindowCell = t.Described<typeof windowCell>;

export const windowStatus = t.object({
  heights: t.count,
  upperBound: t.note('The highest height that may be worked on now.', t.orNull(t.count)),
  inFlight: t.note('Heights in progress and not yet durable.', t.count),
  bytesInFlight: t.count,
  bytesLimit: t.count,
  cells: t.note(
    'The heights from the one above latestIndexed to upperBound, ascending. Neighbouring heights in the same state share one cell.',
    t.arrayOf(windowCell, MAX_WINDOW_CELLS),
  ),
});
