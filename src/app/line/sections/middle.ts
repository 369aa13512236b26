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

/** Longer than the stream of a peer may be late before it is opened again. */
const MIRROR_HOLD_BACK_MS = 10_000;

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
  // Calls of a mirror go to whom the stream comes from, and only slow it down.
  const isMirror = config.accessNodes.length === 0;
  const outlook: ExecutionDataForecast = {
    expects: (height, withinMs) =>
      edi?.expects(height, withinMs) === true ||
      peer?.expects(height, isMirror ? Infinity : withinMs) === true,
  };
  const requester = config.ediOnly
    ? undefined
    : new CollectionRequester(
        {
          ...requesterOptions(config),
          isHistory,
          holdBackMs: isMirror ? MIRROR_HOLD_BACK_MS : DEFAULT_HOLD_BACK_MS,
        },
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
