import { decodeBlock, identifierBytes, varintLength, WireWriter, writeVarint } from '../../../flow/index.js';
import type { RequestFields } from '../../../flow/index.js';
import type { ChangeFeed } from '../../feed/ChangeFeed.js';
import { heightEventOf } from '../../feed/feedEvents.js';
import type { FeedEvent, HeightEvent, ProvenBlock, RewindEvent } from '../../feed/feedEvents.js';
import type { StartPoint } from '../../feed/feedStart.js';
import { invalidArgument } from '../../view/ApiError.js';
import {
  feedStream,
  fieldsOf,
  finalityOf,
  heightOf,
  idOf,
  provableBlock,
  streamStart,
  timestampMessage,
} from './calls.js';
import type { StreamCall } from './calls.js';

const START_HEIGHT = 1;
const END_HEIGHT = 2;
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

/** Blocks with their bodies, as stored and not decoded. The next ones wait until the caller has taken these. */
function bodyStream(feed: ChangeFeed): StreamCall {
  return async (request, sink) => {
    const start = heightOf(request.number(START_HEIGHT));
    const to = request.has(END_HEIGHT) ? heightOf(request.number(END_HEIGHT)) : undefined;
    if (to !== undefined && to < start)
      throw invalidArgument(`end_height (${to}) is below start_height (${start})`);
    const waits = request.flag(WAIT);
    const until = finalityOf(request);
    const from = await streamStart(feed, { height: start }, { until, waits });
    return feed.followBodies(
      { kind: 'indexed_blocks', from, to, until, waits },
      {
        send: (blocks, taken) => sink.write(encodedBodies(blocks), taken),
        end: (reason) => (reason === undefined ? sink.finish() : sink.refuse(reason)),
      },
    );
  };
}

/** `SubscribeIndexedBlocksResponse`, put together in one copy. */
function encodedBodies(blocks: readonly ProvenBlock[]): Buffer {
  return Buffer.concat(blocks.flatMap((block) => field(1, indexedBlock(block))));
}

/** `IndexedBlock` in pieces: a block and its collections have their wire form already. */
function indexedBlock({ block, collections, isProven }: ProvenBlock): Uint8Array[] {
  const head = new WireWriter().number(1, block.height).bytes(2, identifierBytes(block.id)).finish();
  return [
    head,
    ...field(3, [block.encoded]),
    ...collections.flatMap((collection) => field(4, [collection.encoded])),
    new WireWriter().number(5, isProven ? 1 : 0).finish(),
  ];
}

/** A field that is present, even if empty, of these pieces. */
function field(number: number, pieces: readonly Uint8Array[]): Uint8Array[] {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const header = Buffer.alloc(1 + varintLength(length), (number << 3) | 2);
  writeVarint(header, 1, length);
  return [header, ...pieces];
}
