import { isAbort, orAborted } from '../../../runtime/index.js';
import type { ExportOutput } from './exportOutput.js';
import type { ExportProgress } from '../source/exportProgress.js';
import { firstBlockOf } from '../source/blockLine.js';
import { checkSame } from '../source/checkSame.js';
import type { ExportSource } from '../source/exportSource.js';

export interface ExportPlan {
  readonly from: number;
  readonly to: number;
  /** Runs until `to` or a signal; both are a normal end. */
  readonly follow: boolean;
}

export interface ExportParts {
  readonly source: ExportSource;
  readonly output: ExportOutput;
  readonly progress: ExportProgress;
  readonly signal: AbortSignal;
}

/**
 * Writes blocks page by page, from where the output ends to `to`. While one page is written, only the next is
 * fetched, however slow the reader. Resolves with false when the reader has gone. Expected errors: those of the
 * source and of `checkSame`; OperatorError `storage`; without `follow`, the signal's abort reason.
 */
export async function runExport(plan: ExportPlan, parts: ExportParts): Promise<boolean> {
  const { source, output, progress, signal } = parts;
  const { tally } = output;
  const nextHeight = (): number => (tally.whole.last?.height ?? plan.from - 1) + 1;
  const ahead = (): Promise<Buffer> | undefined => {
    if (nextHeight() > plan.to) return undefined;
    const page = source.page({ from: nextHeight(), to: plan.to });
    // It may fail while the page before it is still being written.
    page.catch(() => undefined);
    return page;
  };
  try {
    for (let asked = ahead(); asked !== undefined;) {
      const lines = await asked;
      const { last } = tally.whole;
      // The root block of a spork need not name the block below it as its parent.
      if (last !== undefined && firstBlockOf(lines).parentId !== last.id) await checkSame(last, source);
      tally.add(lines);
      asked = ahead();
      const written = output.write(lines);
      // A reader that has stalled must not hold up the end; but with `follow` the closing line still has to be written.
      if (!(await (plan.follow ? written : orAborted(written, signal)))) return false;
      progress.at(nextHeight() - 1, plan.to, tally.whole.transactions);
    }
  } catch (error) {
    if (!plan.follow || !signal.aborted || !isAbort(error)) throw error;
  }
  return true;
}
