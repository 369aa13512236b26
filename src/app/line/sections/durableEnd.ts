import { BlockCollectionIndexer, MissingCollectionQueue } from '../../../collections/index.js';
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
  const { store, network, window, room } = parts;
  const rootParents = rootParentsOf(parts.sporks);
  window.clear();
  const indexer = new BlockCollectionIndexer(indexerOptions(config, { isHistory }), {
    ...commonOf(parts),
    store,
    window,
    room,
    sporkFor: (height) => network.heights.sporkAt(height),
    rootParentAt: (height) => rootParents.find(({ rootHeight }) => rootHeight === height)?.rootParentId,
  });
  return { indexer, mcq: new MissingCollectionQueue(window) };
}
