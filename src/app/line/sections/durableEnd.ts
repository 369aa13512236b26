import {
  BlockCollectionIndexer,
  ByteBudget,
  HeightTable,
  IndexingWindow,
  MissingCollectionQueue,
} from '../../../collections/index.js';
import type { DaemonConfig } from '../../../config/index.js';
import { indexerOptions, rootParentsOf } from './lineOptions.js';
import { commonOf } from './lineParts.js';
import type { IndexingLineParts } from './lineParts.js';

export type DurableEnd = ReturnType<typeof buildDurableEnd>;

/** The indexer, and the record of each height above the watermark. */
export function buildDurableEnd(
  config: DaemonConfig,
  parts: IndexingLineParts,
  { isHistory }: { readonly isHistory: boolean },
) {
  const { store, network, ends, room } = parts;
  const rootParents = rootParentsOf(parts.sporks);
  const heights = new HeightTable({ watermark: store });
  const indexer = new BlockCollectionIndexer(indexerOptions(config, { isHistory }), {
    ...commonOf(parts),
    store,
    ends,
    heights,
    room,
    sporkFor: (height) => network.heights.sporkAt(height),
    rootParentAt: (height) => rootParents.find(({ rootHeight }) => rootHeight === height)?.rootParentId,
  });
  const mcq = new MissingCollectionQueue({ maxHeights: config.window }, { heights });
  const budget = new ByteBudget({ limitBytes: config.maxInFlightBytes }, { heights });
  const window = new IndexingWindow({ ends, indexer, mcq, budget });
  return { heights, indexer, mcq, budget, window };
}
