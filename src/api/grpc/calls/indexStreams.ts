import { decodeBlock, identifierBytes, WireWriter } from '../../../flow/index.js';
import type { RequestFields } from '../../../flow/index.js';
import type { ChangeFeed } from '../../feed/ChangeFeed.js';
import { heightEventOf } from '../../feed/feedEvents.js';
import type { FeedEvent, HeightEvent, RewindEvent } from '../../feed/feedEvents.js';
import type { StartPoint } from '../../feed/feedStart.js';
import { fieldsOf, heightOf, idOf, provableBlock, timestampMessage } from './calls.js';
import type { StreamCall } from './calls.js';
import { bodyStream } from './bodyStream.js';
import { feedStream, finalityOf } from './feedStream.js';

const START_HEIGHT = 1;
const LAST_SEEN = 2;
const WAIT = 3;

/** The streams of our own `flow_collection_indexer.v1.IndexAPI` (proto/flow_collection_indexer/v1/index.proto). */
export function indexStreams({ feed }: { readonly feed: ChangeFeed }): Readonly<Record<string, StreamCall>> {
  return {
    SubscribeIndexedHeights: feedStream(feed, (request) => ({
      kind: 'indexed_heights',
      until: finalityOf(request),
      start: startOf(request),
      waits: request.flag(WAIT),
      encode: encoded,
    })),
    SubscribeIndexedBlocks: bodyStream(feed),
    SubscribeProvableBlocks: feedStream(feed, (request) => ({
      kind: 'blocks',
      until: 'indexed',
      start: { height: heightOf(request.number(START_HEIGHT)) },
      encode: (event) =>
        new WireWriter().element(1, provableBlock(heightEventOf(event).stored.block)).finish(),
    })),
  };
}

/** Expected errors: ApiError (malformed_id, invalid_argument, bad_request). */
function startOf(request: RequestFields): StartPoint {
  if (request.has(LAST_SEEN)) {
    const seen = fieldsOf(request.bytes(LAST_SEEN));
    const id = seen.bytes(2);
    const blockId = id.length === 0 ? undefined : idOf('block', id);
    return { lastSeen: { height: heightOf(seen.number(1)), blockId } };
  }
  return request.has(START_HEIGHT) ? { height: heightOf(request.number(START_HEIGHT)) } : 'next';
}

/** `SubscribeIndexedHeightsResponse`. */
function encoded(event: FeedEvent): Buffer {
  const response = new WireWriter();
  return (
    event.kind === 'height' ? response.element(1, indexedHeight(event)) : response.element(2, rewind(event))
  ).finish();
}

function indexedHeight({ stored, isSealed, isProven }: HeightEvent): Buffer {
  const { block, transactionCounts } = stored;
  const { timestamp } = decodeBlock(block.encoded);
  const message = new WireWriter()
    .number(1, block.height)
    .bytes(2, identifierBytes(block.id))
    .bytes(3, identifierBytes(block.parentId));
  if (timestamp !== undefined) message.element(4, timestampMessage(timestamp));
  block.collectionIds.forEach((id, index) => {
    const collection = new WireWriter()
      .bytes(1, identifierBytes(id))
      .number(2, transactionCounts[index] ?? 0);
    message.element(5, collection.finish());
  });
  return message
    .number(6, isSealed ? 1 : 0)
    .number(7, isProven ? 1 : 0)
    .finish();
}

function rewind({ height, blockId }: RewindEvent): Buffer {
  const message = new WireWriter().number(1, height);
  if (blockId !== undefined) message.bytes(2, identifierBytes(blockId));
  return message.finish();
}
