import { OperatorError } from '../../../runtime/index.js';
import { firstBlockOf } from './blockLine.js';
import type { BlockLine } from './blockLine.js';
import type { ExportSource } from './exportSource.js';

/** Expected errors: those of the source; OperatorError `foreign` when it does not have this very block. */
export async function checkSame(
  { height, id }: Pick<BlockLine, 'height' | 'id'>,
  source: ExportSource,
): Promise<void> {
  if (firstBlockOf(await source.page({ from: height, to: height })).id === id) return;
  throw new OperatorError(
    'foreign',
    `The export holds block ${id} at height ${height}, and the index has another one there: it is of another chain, ` +
      'or was rewound since. Begin a new export.',
  );
}
