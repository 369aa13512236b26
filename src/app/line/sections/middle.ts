import {
  CollectionRequester,
  DEFAULT_HOLD_BACK_MS,
  ExecutionDataIndexer,
  HeightExplainer,
  JobProcessor,
} from '../../../collections/index.js';
import type { CollectionSink, ExecutionDataForecast } from '../../../collections/index.js';
import type { DaemonConfig } from '../../../config/index.js';
import type { DurableEnd } from './durableEnd.js';
import { peerOptions, requesterOptions, streamOptions } from './lineOptions.js';
import { commonOf } from './lineParts.js';
import type { IndexingLineParts } from './lineParts.js';

export type Middle = ReturnType<typeof buildMiddle>;

/** The sources of collections, and the processor that takes from all of them. They are connected through ports only. */
export function buildMiddle(
  config: DaemonConfig,
  parts: IndexingLineParts,
  { indexer, mcq }: DurableEnd,
  { isHistory, onFatal }: { readonly isHistory: boolean; readonly onFatal: (error: unknown) => void },
) {
  const { listener, slots, window } = parts;
  const common = commonOf(parts);
  const sink: CollectionSink = {
    onCollection: (received) => processor.onCollection(received),
    onReceivedCollectionsForBlock: (height, collections) =>
      processor.onReceivedCollectionsForBlock(height, collections),
  };
  const streams = { ...common, window, sink };
  const edi = config.edi.enabled
    ? new ExecutionDataIndexer(streamOptions(config), {
        ...streams,
        dueHeight: () => listener.sealedHeight(),
      })
    : undefined;
  const peer =
    config.peers.length > 0
      ? new ExecutionDataIndexer(peerOptions(config), {
          ...streams,
          dueHeight: () => listener.finalizedHeight(),
        })
      : undefined;
  const outlook: ExecutionDataForecast = {
    expects: (height, withinMs) =>
      edi?.expects(height, withinMs) === true || peer?.expects(height, withinMs) === true,
  };
  const requester = config.ediOnly
    ? undefined
    : new CollectionRequester(
        { ...requesterOptions(config), isHistory, holdBackMs: DEFAULT_HOLD_BACK_MS },
        { ...common, slots, mcq, window, sink, outlook, onFatal },
      );
  const processor = new JobProcessor(config, {
    ...common,
    mcq,
    indexer,
    window,
    requests: requester,
    onFatal,
  });
  const explainer = new HeightExplainer({
    ...common,
    mcq,
    window,
    requests: requester,
    executionDataReason: () => edi?.trouble(),
    peerReason: () => peer?.trouble(),
  });
  return { edi, peer, requester, processor, explainer };
}
