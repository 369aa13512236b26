import { formatCount, formatDuration, formatRate } from '../../observability/index.js';
import { liveTerminal, measureProgress } from '../../observability/index.js';
import { systemClock } from '../../runtime/index.js';
import type { Terminal } from '../command.js';
import { atMostEvery } from '../output/words.js';

/** `to` of an export without a last height. */
export const ENDLESS = Number.MAX_SAFE_INTEGER;

const LINE_INTERVAL_MS = 10_000;
const LIVE_INTERVAL_MS = 250;

export type ExportProgress = ReturnType<typeof exportProgress>;

/** Shows progress on standard error: a live line if that is a terminal that shows nothing else, otherwise a line every ten seconds. */
export function exportProgress(
  terminal: Terminal,
  { isQuiet, isAlone }: { readonly isQuiet: boolean; readonly isAlone: boolean },
) {
  const stream = isAlone && !isQuiet ? terminal.errTerminal : undefined;
  const live = stream && liveTerminal(stream);
  const say = (text: string): void => {
    if (live !== undefined) live.write(`${text}\n`);
    else if (!isQuiet) terminal.err(`${text}\n`);
  };
  let height: number | undefined;
  let end = 0;
  const source = { latestIndexedHeight: () => height, headHeight: () => end };
  const meter = measureProgress({ clock: systemClock, source });
  const isDue = atMostEvery(live === undefined ? LINE_INTERVAL_MS : LIVE_INTERVAL_MS);
  const show = (text: () => string): void => {
    if (!isDue()) return;
    if (live === undefined) say(text());
    else live.setLine(text().slice(0, live.columns()));
  };
  let waitsFor: string | undefined;
  return {
    at: (reached: number, to: number, transactions: number): void => {
      [height, end] = [reached, to];
      const { rate, eta } = meter();
      show(() => {
        const of = to < ENDLESS ? ` of ${formatCount(to)}` : '';
        const left = of === '' || eta === null ? '' : `, ${formatDuration(eta)} left`;
        const counted = `${formatCount(transactions)} transactions, ${formatRate(rate)}`;
        return `exported height ${formatCount(reached)}${of}, ${counted}${left}`;
      });
    },
    scanned: (share: number): void => show(() => `reading what the file holds: ${(100 * share).toFixed(0)}%`),
    /** Sets why the export waits for the daemon, if it does; prints changes. */
    waits: (why?: string): void => {
      if (why !== waitsFor) say(why === undefined ? 'The daemon answers again.' : `${why}; waiting for it.`);
      waitsFor = why;
    },
    /** Removes the live line and prints a last message. */
    end: (text?: string): void => {
      live?.setLine(undefined);
      if (text !== undefined) say(text);
    },
  };
}
