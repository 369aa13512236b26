import {
  formatCount,
  formatDuration,
  formatRate,
  LiveTerminal,
  ProgressMeter,
  renderProgressLine,
} from '../../observability/index.js';
import { systemClock } from '../../runtime/index.js';
import type { Terminal } from '../command.js';
import type { ExportTally } from './ExportTally.js';

/** Between two lines, where the progress cannot be shown live. */
const LINE_INTERVAL_MS = 10_000;
/** Between two changes of the live line. */
const LIVE_INTERVAL_MS = 250;

/** How an export is doing, on standard error. */
export interface ExportProgress {
  /** Everything up to this height is written. */
  at(height: number, tally: Pick<ExportTally, 'transactions'>): void;
  /** The source answers, with heights or without. */
  answered(): void;
  /** The daemon does not answer. Told once, until it does again. */
  gone(): void;
  /** So much of a file that is continued has been read. */
  scanned(read: number, of: number): void;
  say(text: string): void;
  close(): void;
}

export const silentProgress: ExportProgress = {
  at: () => undefined,
  answered: () => undefined,
  gone: () => undefined,
  scanned: () => undefined,
  say: () => undefined,
  close: () => undefined,
};

/** A live line where standard error is a terminal that shows nothing else, otherwise a line every ten seconds. */
export function progressOn(
  terminal: Terminal,
  { isAlone, from, to }: { readonly isAlone: boolean; readonly from: number; readonly to: number },
): ExportProgress {
  const stream = isAlone ? terminal.errTerminal : undefined;
  const live = stream && new LiveTerminal({ stream });
  const say = (text: string): void => (live === undefined ? terminal.err(text) : live.write(text));
  let height = from - 1;
  const hasEnd = to < Number.MAX_SAFE_INTEGER;
  const meter = new ProgressMeter(
    {},
    { clock: systemClock, source: { latestIndexedHeight: () => height, headHeight: () => to } },
  );
  let shownAtMs = systemClock.monotonic();
  let isGone = false;
  const isDue = (): boolean => {
    const nowMs = systemClock.monotonic();
    if (nowMs - shownAtMs < (live === undefined ? LINE_INTERVAL_MS : LIVE_INTERVAL_MS)) return false;
    shownAtMs = nowMs;
    return true;
  };
  return {
    at: (reached, { transactions }) => {
      height = reached;
      const state = meter.state();
      if (!isDue()) return;
      const rate = formatRate(state.ratePerSecond);
      const counted = `height ${formatCount(reached)}, ${formatCount(transactions)} transactions, ${rate}`;
      if (live !== undefined) {
        live.setLine(hasEnd ? renderProgressLine(state, live.columns()) : counted.slice(0, live.columns()));
        return;
      }
      const left = state.etaSeconds === undefined ? '' : `, ${formatDuration(state.etaSeconds)} left`;
      terminal.err(`exported ${counted}${hasEnd ? `, of ${formatCount(to)}${left}` : ''}\n`);
    },
    answered: () => {
      if (isGone) say('The daemon answers again.\n');
      isGone = false;
    },
    gone: () => {
      if (!isGone) say('The daemon does not answer; waiting for it.\n');
      isGone = true;
    },
    scanned: (read, of) => {
      if (!isDue()) return;
      const percent = `${((100 * read) / Math.max(1, of)).toFixed(0)}%`;
      if (live === undefined) terminal.err(`reading what the file holds: ${percent}\n`);
      else live.setLine(`reading what the file holds: ${percent}`.slice(0, live.columns()));
    },
    say,
    close: () => live?.setLine(undefined),
  };
}
