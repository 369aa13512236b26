import { OperatorError } from '../../../runtime/index.js';
import { firstBlockOf } from './blockLine.js';
import type { BlockLine } from './blockLine.js';
import type { ExportSource } from './exportSource.js';

/** Expected errors: those of the source; OperatorError `foreign` when it has another block at this height. */
export async function checkSame(
  { height, id }: Pick<BlockLine, 'height' | 'id'>,
  source: ExportSource,
): Promise<void> {
  if (firstBlockOf(await source.page({ from: height, to: height })).id === id) return;
  throw new OperatorError(
    'foreign',
    `The export holds block ${id} at height ${height}, but the index has another block there: it is of another chain, ` +
      'or was rewound. Begin a new export.',
  );
}
