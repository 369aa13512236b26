import { OperatorError } from '../../../runtime/index.js';
import { missingIn, rangesInWords } from '../../../storage/index.js';
import { ENDLESS } from './exportProgress.js';
import type { ExportSource } from './exportSource.js';

/** The requested heights; null where not given. */
export interface AskedHeights {
  readonly from: number | null;
  readonly to: number | null;
  readonly follow: boolean;
}

/** The heights to export. Expected errors: those of the source; OperatorError `not_found`. */
export async function exportRange(
  source: ExportSource,
  asked: AskedHeights,
): Promise<{ readonly from: number; readonly to: number }> {
  const { first, latest, ranges } = await source.range();
  const from = asked.from ?? first;
  const to = asked.to ?? (asked.follow ? ENDLESS : latest);
  const outside =
    from < first
      ? `Height ${from} is below the first indexed height.`
      : asked.follow || Math.max(from, to) <= latest
        ? undefined
        : `Height ${Math.max(from, to)} is not yet indexed: lower --to, or wait for it with --follow.`;
  const indexed = `The indexed heights are ${rangesInWords(ranges)}`;
  if (outside !== undefined) throw new OperatorError('not_found', `${outside} ${indexed}.`);
  const holes = missingIn({ from, to: Math.min(to, latest) }, ranges);
  if (holes.length === 0) return { from, to };
  throw new OperatorError(
    'not_found',
    `Between --from and --to, nothing is indexed at ${rangesInWords(holes)}. ${indexed}: choose heights of one range, ` +
      'or fill in the hole first.',
  );
}
