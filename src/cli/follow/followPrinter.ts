import type { FollowIndexDependencies } from '../../app/index.js';
import { formatCount, formatRate } from '../../observability/index.js';
import { systemClock } from '../../runtime/index.js';
import type { Terminal } from '../command.js';

/** Between two lines of progress. */
const LINE_INTERVAL_MS = 10_000;

/** Prints progress on standard error, and at once what holds it up; `isQuiet`: only the latter. */
export function followPrinter(
  terminal: Terminal,
  { isQuiet }: { readonly isQuiet: boolean },
): Omit<FollowIndexDependencies, 'signal'> {
  let copied = 0;
  let isInStep = false;
  let heldUp: string | undefined;
  let shownAtMs = systemClock.monotonic();
  let shownCopied = 0;
  const say = (text: string): void => {
    if (!isQuiet) terminal.err(`${text}\n`);
  };
  const progress = (height: number): void => {
    const nowMs = systemClock.monotonic();
    if (nowMs - shownAtMs < LINE_INTERVAL_MS || copied === shownCopied) return;
    const perSecond = (1_000 * (copied - shownCopied)) / (nowMs - shownAtMs);
    say(`copied ${formatCount(copied)} heights, now at ${formatCount(height)}, ${formatRate(perSecond)}`);
    shownAtMs = nowMs;
    shownCopied = copied;
  };
  let copiedInPass = 0;
  return {
    onProgress: ({ copied: soFar, height }) => {
      // Each pass counts from zero.
      copied += soFar > copiedInPass ? soFar - copiedInPass : soFar;
      copiedInPass = soFar;
      progress(height);
    },
    onInStep: (height) => {
      copiedInPass = 0;
      if (!isInStep) say(`In step with the daemon at height ${formatCount(height)}; following it.`);
      isInStep = true;
    },
    onHeldUp: (reason) => {
      if (reason === heldUp) return;
      if (reason !== undefined) terminal.err(`Held up: ${reason}\n`);
      else terminal.err('It continues.\n');
      heldUp = reason;
      isInStep &&= reason === undefined;
    },
    onRewind: (height, from) => {
      copiedInPass = 0;
      terminal.err(
        `The daemon was rewound: heights ${formatCount(height + 1)} to ${formatCount(from)} are retracted.\n`,
      );
    },
  };
}
