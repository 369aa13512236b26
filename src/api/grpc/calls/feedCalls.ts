import { encodeTimestamp, identifierBytes, timeOfBlock, varintLength } from '../../../flow/index.js';
import { WireWriter, writeVarint } from '../../../flow/index.js';
import type { FinalizedBlock, RequestFields } from '../../../flow/index.js';
import { BlockHasher } from '../../../proof/index.js';
import type { IndexReader } from '../../../storage/index.js';
import type { ChangeFeed } from '../../feed/changeFeed.js';
import type { Cursor, FeedEvent, FeedSink, Following, HeightEvent } from '../../feed/following.js';
import type { ProvenBlock, RewindEvent, StartPoint } from '../../feed/following.js';
import { ApiError, invalidArgument } from '../../view/ApiError.js';
import { fieldsOf, finalityOf, headerMessage, heightOf, idOf, provableBlock } from './calls.js';
import { refuseFullBlock } from './calls.js';
import type { StreamCall } from './calls.js';

/** Fields of the requests of `IndexAPI`. */
const START_HEIGHT = 1;
const END_HEIGHT = 2;
const LAST_SEEN = 2;
const WAIT = 3;

/** What a stream of the change feed sends. */
interface FeedStream<E> extends Pick<Following, 'kind' | 'until' | 'waits' | 'to'> {
  readonly start: StartPoint;
  readonly encode: (event: E) => Buffer;
  /** Refuses a stream that could not send its first block. Expected errors: ApiError. */
  readonly check?: ((from: Cursor) => Promise<void>) | undefined;
}

/** A call that follows the change feed by `follow`, one message per event. Expected errors: also those of `ChangeFeed.cursorAt`. */
function feedStream<E>(
  feed: ChangeFeed,
  follow: (following: Following, sink: FeedSink<E>) => () => void,
  parse: (request: RequestFields) => FeedStream<E>,
): StreamCall {
  return async (request, { end, send }) => {
    const { check, encode, start, ...following } = parse(request);
    const from = await feed.cursorAt(start, following).catch((error: unknown) => {
      // As on access nodes: it will never exist, whereas what is not found may be requested again.
      if (!(error instanceof ApiError) || error.reason !== 'below_first_indexed') throw error;
      throw new ApiError(400, error.reason, error.message, error);
    });
    await check?.(from);
    return follow({ ...following, from }, { send: (event, taken) => send(encode(event), taken), end });
  };
}

/** `flow.entities.BlockStatus`: the head that a request follows. */
const heads: ReadonlyMap<bigint, Following['until']> = new Map([
  [1n, 'indexed'],
  [2n, 'sealed'],
]);

interface Start {
  /** Field number of `block_status`; `full_block_response`, where there is one, is the next field. */
  readonly statusField: number;
  readonly point: (request: RequestFields) => StartPoint;
}

const starts: Readonly<Record<string, Start>> = {
  FromStartBlockID: { statusField: 2, point: (request) => ({ blockId: idOf('block', request.bytes(1)) }) },
  FromStartHeight: { statusField: 2, point: (request) => ({ height: heightOf(request.number(1)) }) },
  // The latest sealed block even for streams of finalized ones, as on access nodes.
  FromLatest: { statusField: 1, point: () => 'sealed' },
};

/**
 * By method, over the indexed chain: the subscriptions of `flow.access.AccessAPI` to blocks, their headers and digests, and the
 * streams of our own `flow_collection_indexer.v1.IndexAPI` (proto/flow_collection_indexer/v1/index.proto).
 */
export function feedCalls(
  { chainId }: { readonly chainId: string },
  { feed, store: reader }: { readonly feed: ChangeFeed; readonly store: IndexReader },
): Readonly<Record<'access' | 'index', Readonly<Record<string, StreamCall>>>> {
  const hasher = new BlockHasher();
  const header = (block: FinalizedBlock): Buffer => headerMessage(block, chainId, hasher);
  const messages = {
    Blocks: { kind: 'blocks', encode: blockMessage, check: undefined },
    BlockDigests: { kind: 'digests', encode: digestMessage, check: undefined },
    BlockHeaders: {
      kind: 'headers',
      /** `SubscribeBlockHeadersResponse`. */
      encode: ({ stored }: HeightEvent) => new WireWriter().element(1, header(stored.block)).finish(),
      // A node may be asked instead only before anything was sent.
      check: async ({ next }: Cursor) => {
        const stored = await reader.blockByHeight(Math.min(next, reader.latestIndexedHeight()));
        if (stored !== undefined) header(stored.block);
      },
    },
  } as const;
  const access = Object.fromEntries(
    Object.entries(messages).flatMap(([what, { check, kind, encode }]) =>
      Object.entries(starts).map(([from, { statusField, point }]) => [
        `Subscribe${what}${from}`,
        feedStream(feed, feed.followHeights, (request) => {
          refuseFullBlock(kind === 'blocks' && request.flag(statusField + 1));
          return { check, kind, encode, until: headOf(request.number(statusField)), start: point(request) };
        }),
      ]),
    ),
  );
  const index = {
    SubscribeIndexedHeights: feedStream(feed, feed.follow, (request) => ({
      kind: 'indexed_heights',
      until: finalityOf(request),
      start: startOf(request),
      waits: request.flag(WAIT),
      encode: encoded,
    })),
    // Blocks with their bodies, as stored and not decoded. The next ones wait until the caller has taken these.
    SubscribeIndexedBlocks: feedStream(feed, feed.followBodies, (request) => {
      const height = heightOf(request.number(START_HEIGHT));
      const to = request.has(END_HEIGHT) ? heightOf(request.number(END_HEIGHT)) : undefined;
      if (to !== undefined && to < height)
        throw invalidArgument(`end_height (${to}) is below start_height (${height})`);
      return {
        kind: 'indexed_blocks',
        to,
        until: finalityOf(request),
        start: { height },
        waits: request.flag(WAIT),
        // `SubscribeIndexedBlocksResponse`, put together in one copy.
        encode: (blocks) => Buffer.concat(blocks.flatMap((block) => field(1, indexedBlock(block)))),
      };
    }),
    SubscribeProvableBlocks: feedStream(feed, feed.followHeights, (request) => ({
      kind: 'blocks',
      until: 'indexed',
      start: { height: heightOf(request.number(START_HEIGHT)) },
      encode: ({ stored }) => new WireWriter().element(1, provableBlock(stored.block)).finish(),
    })),
  };
  return { access, index };
}

/** Expected errors: ApiError (invalid_argument). */
function headOf(status: bigint): Following['until'] {
  const until = heads.get(status);
  if (until !== undefined) return until;
  throw invalidArgument(
    'block_status must be BLOCK_FINALIZED or BLOCK_SEALED: it says which head the stream follows',
  );
}

/** `SubscribeBlocksResponse`. */
function blockMessage({ stored }: HeightEvent): Buffer {
  return new WireWriter().element(1, stored.block.encoded).finish();
}

/** `SubscribeBlockDigestsResponse`. */
function digestMessage({ stored: { block } }: HeightEvent): Buffer {
  const timestamp = timeOfBlock(block.encoded);
  const digest = new WireWriter().bytes(1, identifierBytes(block.id)).number(2, block.height);
  if (timestamp !== undefined) digest.element(3, encodeTimestamp(timestamp));
  return digest.finish();
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
  const timestamp = timeOfBlock(block.encoded);
  const message = new WireWriter()
    .number(1, block.height)
    .bytes(2, identifierBytes(block.id))
    .bytes(3, identifierBytes(block.parentId));
  if (timestamp !== undefined) message.element(4, encodeTimestamp(timestamp));
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
  const message = new WireWriter().number(1, Math.max(0, height));
  if (blockId !== undefined) message.bytes(2, identifierBytes(blockId));
  return message.finish();
}

/** `IndexedBlock` in pieces: a block and its collections have their wire form already. */
function indexedBlock({ block, bodies, isProven }: ProvenBlock): Uint8Array[] {
  const head = new WireWriter().number(1, block.height).bytes(2, identifierBytes(block.id)).finish();
  return [
    head,
    ...field(3, [block.encoded]),
    ...bodies.flatMap((body) => field(4, [body])),
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
