import type { DaemonConfig } from '../../../config/index.js';
import { FinalizedBlocks } from '../../../finality/index.js';
import { ComponentConsumer, WorkSignal } from '../../../jobqueue/index.js';
import { blocksOptions, rootParentsOf } from './lineOptions.js';
import { commonOf, soundBlock } from './lineParts.js';
import type { IndexingLineOptions, IndexingLineParts } from './lineParts.js';
import type { Middle } from './middle.js';

export type Front = ReturnType<typeof buildFront>;

/** Finalized blocks, and the consumer that hands them to the processor. */
export function buildFront(
  config: DaemonConfig,
  parts: IndexingLineParts,
  { processor }: Middle,
  { reachedHeight, rootParents = [], asksFor }: IndexingLineOptions,
) {
  const { store, listener, window } = parts;
  const common = commonOf(parts);
  const workSignal = new WorkSignal();
  const blocks = new FinalizedBlocks(
    {
      ...blocksOptions(config, parts),
      reachedHeight,
      asksFor,
      sporkRoots: [...rootParentsOf(parts.sporks), ...rootParents],
    },
    {
      ...common,
      heights: window,
      signal: workSignal,
      watermark: store,
      // The chain's head, which may be above the stop height.
      head: () => listener.finalizedHeight() ?? 0,
      toldHead: (height, besides) => listener.toldHead(height, besides),
      upperBound: () => window.upperBound(),
      onReplaced: (block, giver) => processor.onForked(block, giver),
      storedBlock: (height) => soundBlock(store, height),
    },
  );
  const consumer = new ComponentConsumer(
    { maxProcessing: config.maxProcessing, maxSearchAhead: config.window },
    {
      jobs: blocks,
      worker: processor,
      wakeUp: workSignal,
      progress: { processedIndex: () => store.latestIndexedHeight() },
    },
  );
  return { blocks, workSignal, consumer };
}
