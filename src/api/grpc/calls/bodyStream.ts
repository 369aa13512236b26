import { identifierBytes, varintLength, WireWriter, writeVarint } from '../../../flow/index.js';
import type { ChangeFeed } from '../../feed/ChangeFeed.js';
import type { ProvenBlock } from '../../feed/feedEvents.js';
import { invalidArgument } from '../../view/ApiError.js';
import { heightOf } from './calls.js';
import type { StreamCall } from './calls.js';
import { finalityOf, streamStart } from './feedStream.js';

const START_HEIGHT = 1;
const END_HEIGHT = 2;
const WAIT = 3;

/** Blocks with their bodies, as stored and not decoded. The next ones wait until the caller has taken these. */
export function bodyStream(feed: ChangeFeed): StreamCall {
  return async (request, sink) => {
    const start = heightOf(request.number(START_HEIGHT));
    const to = request.has(END_HEIGHT) ? heightOf(request.number(END_HEIGHT)) : undefined;
    if (to !== undefined && to < start)
      throw invalidArgument(`end_height (${to}) is below start_height (${start})`);
    const waits = request.flag(WAIT);
    const until = finalityOf(request);
    const from = await streamStart(feed, { height: start }, { until, waits });
    return feed.followBodies(
      { from, to, until, waits },
      {
        send: (blocks, taken) => sink.write(encoded(blocks), taken),
        end: (reason) => (reason === undefined ? sink.finish() : sink.refuse(reason)),
      },
    );
  };
}

/** `SubscribeIndexedBlocksResponse`, put together in one copy. */
function encoded(blocks: readonly ProvenBlock[]): Buffer {
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
