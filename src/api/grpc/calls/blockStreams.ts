import { decodeBlock, identifierBytes, WireWriter } from '../../../flow/index.js';
import type { FinalizedBlock, RequestFields } from '../../../flow/index.js';
import { BlockHasher } from '../../../proof/index.js';
import type { IndexReader } from '../../../storage/index.js';
import type { ChangeFeed } from '../../feed/ChangeFeed.js';
import type { Cursor, FeedEvent, Following } from '../../feed/feedEvents.js';
import { heightEventOf } from '../../feed/feedEvents.js';
import type { StartPoint } from '../../feed/feedStart.js';
import { invalidArgument } from '../../view/ApiError.js';
import { feedStream, headerMessage, heightOf, idOf, refuseFullBlock, timestampMessage } from './calls.js';
import type { StreamCall } from './calls.js';

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

/** The `flow.access.AccessAPI` subscriptions to blocks, their headers and digests, over the indexed chain. */
export function blockStreams(
  { chainId }: { readonly chainId: string },
  { feed, reader }: { readonly feed: ChangeFeed; readonly reader: IndexReader },
): Readonly<Record<string, StreamCall>> {
  const hasher = new BlockHasher();
  const header = (block: FinalizedBlock): Buffer => headerMessage(block, chainId, hasher);
  const messages = {
    Blocks: { kind: 'blocks', encode: blockMessage, check: undefined },
    BlockDigests: { kind: 'digests', encode: digestMessage, check: undefined },
    BlockHeaders: {
      kind: 'headers',
      /** `SubscribeBlockHeadersResponse`. */
      encode: (event: FeedEvent) =>
        new WireWriter().element(1, header(heightEventOf(event).stored.block)).finish(),
      // A node may be asked instead only before anything was sent.
      check: async ({ next }: Cursor) => {
        const stored = await reader.blockByHeight(Math.min(next, reader.latestIndexedHeight()));
        if (stored !== undefined) header(stored.block);
      },
    },
  } as const;
  return Object.fromEntries(
    Object.entries(messages).flatMap(([what, { check, kind, encode }]) =>
      Object.entries(starts).map(([from, { statusField, point }]) => [
        `Subscribe${what}${from}`,
        feedStream(feed, (request) => {
          refuseFullBlock(kind === 'blocks' && request.flag(statusField + 1));
          return { check, kind, encode, until: headOf(request.number(statusField)), start: point(request) };
        }),
      ]),
    ),
  );
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
function blockMessage(event: FeedEvent): Buffer {
  return new WireWriter().element(1, heightEventOf(event).stored.block.encoded).finish();
}

/** `SubscribeBlockDigestsResponse`. */
function digestMessage(event: FeedEvent): Buffer {
  const { block } = heightEventOf(event).stored;
  const { timestamp } = decodeBlock(block.encoded);
  const digest = new WireWriter().bytes(1, identifierBytes(block.id)).number(2, block.height);
  if (timestamp !== undefined) digest.element(3, timestampMessage(timestamp));
  return digest.finish();
}
