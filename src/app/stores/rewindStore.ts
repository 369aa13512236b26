import type { DaemonConfig } from '../../config/index.js';
import { OperatorError } from '../../runtime/index.js';
import { rangesInWords } from '../../storage/index.js';
import { closing, takeLead } from './databases.js';
import { openForCommand } from './openStore.js';
import type { OpenStore } from './openStore.js';

/** What a rewind deletes. */
export interface RewindReport {
  /** The watermark. */
  readonly from: number;
  /** The watermark afterwards: below the requested height if no range has that height. */
  readonly through: number;
  /** What is deleted: in all ranges, and the blocks above the watermark. `undefined`: nothing. */
  readonly forgotten: { readonly heights: number; readonly from: number; readonly to: number } | undefined;
}

/**
 * Finds out what is stored above `height`, and with `apply` deletes it. Expected errors: those of `openStoreReadOnly`;
 * OperatorError `usage` when there is nothing to keep at that height.
 */
export async function rewindStore(
  config: DaemonConfig,
  height: number,
  { openStore, apply = true }: { readonly openStore?: OpenStore; readonly apply?: boolean } = {},
): Promise<RewindReport> {
  const opening = openForCommand(config, { forRewind: true }, { openStore });
  return closing(await opening, async (store) => {
    const meta = store.meta();
    if (meta === undefined || store.latestIndexedHeight() < 0)
      throw new OperatorError('usage', 'The store is empty: there is nothing to rewind.');
    const from = store.latestIndexedHeight();
    const ranges = store.coverage();
    const lowest = ranges[0]?.from ?? meta.firstHeight;
    const isOnly = ranges.length <= 1;
    if (height < lowest - (isOnly ? 1 : 0) || height > from) {
      throw new OperatorError(
        'usage',
        `--to ${height} is outside what can be kept: the store holds heights ${rangesInWords(ranges)}. ` +
          (lowest === 0 || !isOnly
            ? `Give a height from ${lowest} to ${from}.`
            : `Give a height from ${lowest - 1} (forget everything) to ${from}.`),
      );
    }
    const through = Math.min(height, ranges.findLast((range) => range.from <= height)?.to ?? height);
    const waiting = store.blocksAboveWatermark();
    const open = store.ranges.open().map((range) => ({ from: range.from, to: range.next - 1 }));
    const above = [...ranges, ...open].map(({ from, to }) => Math.max(0, to - Math.max(from - 1, through)));
    const heights = above.reduce((sum, each) => sum + each, waiting.length);
    if (apply) {
      await takeLead(config, store);
      await store.rewind(height);
    }
    const to = waiting.at(-1)?.height ?? from;
    return { from, through, forgotten: heights === 0 ? undefined : { heights, from: through + 1, to } };
  });
}
