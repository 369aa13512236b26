import type { StatusDocument } from '../../api/index.js';
import { formatCount, formatDuration } from '../../observability/index.js';
import { systemClock } from '../../runtime/index.js';
import type { Terminal } from '../command.js';

/** A count with its noun: "1 height", "1,234 heights". */
export function counted(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** Returns a function that is true at most once per interval, for the first time after one interval. */
export function atMostEvery(intervalMs = 2_000): () => boolean {
  let lastAtMs = systemClock.monotonic();
  return () => {
    const nowMs = systemClock.monotonic();
    if (nowMs - lastAtMs < intervalMs) return false;
    lastAtMs = nowMs;
    return true;
  };
}

/** Options for long work: prints progress now and then, unless `isQuiet`, and passes on the terminal's signal. */
export function reportingTo<T>(terminal: Terminal, inWords: (progress: T) => string, isQuiet = false) {
  const isDue = atMostEvery();
  const onProgress = (progress: T): void => {
    if (!isQuiet && isDue()) terminal.err(`${inWords(progress)}\n`);
  };
  return { onProgress, signal: terminal.signal };
}

/** Wraps a text to `columns` characters, between words; longer words are cut, or left as they are. */
export function wrapped(text: string, columns: number, longWords: 'cut' | 'whole' = 'cut'): string[] {
  const width = Math.max(1, columns);
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line);
      line = '';
    }
    line = line === '' ? word : `${line} ${word}`;
    for (; longWords === 'cut' && line.length > width; line = line.slice(width))
      lines.push(line.slice(0, width));
  }
  return [...lines, line];
}

export function reasonWords({ code, message, sinceSeconds }: StatusDocument['reasons'][number]): string {
  return `${code}: ${message} (for ${formatDuration(sinceSeconds)})`;
}

export type Row = readonly [label: string, text: string];

export function labelled(rows: readonly Row[]): string {
  return rows.map(([label, text]) => `${label.padEnd(LABEL_WIDTH)} ${text}\n`).join('');
}

export const LABEL_WIDTH = 12;
