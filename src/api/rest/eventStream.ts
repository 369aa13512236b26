import { parseIdentifier, timeOfBlock } from '../../flow/index.js';
import { every, quoted, type Clock } from '../../runtime/index.js';
import { countCollections, countedCollections } from '../documents/lookupDocument.js';
import type { ChangeFeed } from '../feed/changeFeed.js';
import { whenTaken, type FeedEvent, type HeightEvent, type StartPoint } from '../feed/following.js';
import type { HttpRequest, StreamingResponse } from '../http/types.js';
import { rfc3339 } from '../json.js';
import * as T from '../Schema.js';
import { ApiError, invalidArgument } from '../view/ApiError.js';
import { heightIn, parseHeight, single, wantsProven, word } from '../view/queryParameters.js';

/** Interval of the comments that keep proxies from closing a quiet stream. */
const KEEP_ALIVE_MS = 15_000;
/** Without an empty line: some clients (httpx-sse, r3labs/sse) take each for the end of an event. */
const KEEP_ALIVE = ': still here\n';
/** Delay after which a client reconnects. */
const RETRY_MS = 1_000;

/** The data of a `height` event: a height became readable. */
export const heightSchema = T.object({
  height: T.count,
  block_id: T.identifier,
  parent_id: T.identifier,
  timestamp: T.time,
  collections: countedCollections,
  sealed: T.flag.note('Known to be sealed when this was sent.'),
  proven: T.flag.note('Known to be proven final when this was sent.'),
}).named('IndexedHeight');

/** The data of a `rewind` event. */
export const rewindSchema = T.object({
  height: T.countFrom(-1).note('Discard everything above; -1: everything.'),
  block_id: T.identifier.orNull.note('The block indexed at this height; null where none is known.'),
}).named('Rewind');

/** Serves `/events`, the change feed as server-sent events. Expected errors: ApiError (invalid_argument), and those of `ChangeFeed.cursorAt`. */
export async function eventStream(
  request: HttpRequest,
  { feed, clock }: { readonly feed: ChangeFeed; readonly clock: Clock },
): Promise<StreamingResponse> {
  const waits = word(request.query, 'wait', ['false', 'true']) === 'true';
  const until = wantsProven(request.query) ? 'proven' : 'indexed';
  const from = await feed.cursorAt(startOf(request), { waits, until });
  const stream: StreamingResponse['stream'] = (to, explain) => {
    const leave = feed.follow(
      { kind: 'events', from, until, waits },
      {
        send: (event, taken) => to.write(eventText(event), whenTaken(taken)),
        end: (reason) => {
          // A caller that takes nothing would not take this either.
          if (reason instanceof ApiError && reason.reason === 'overdue') to.destroy();
          else to.end(`event: end\ndata: ${JSON.stringify(explain(reason).body())}\n\n`);
        },
      },
    );
    const timer = every(clock, KEEP_ALIVE_MS, () => {
      if (to.writableLength === 0) to.write(KEEP_ALIVE);
    });
    return () => {
      leave();
      timer.cancel();
    };
  };
  return { contentType: 'text/event-stream; charset=UTF-8', preamble: `retry: ${RETRY_MS}\n`, stream };
}

/** The start that a reconnecting client adds, or else the one in its URL. Expected errors: ApiError (invalid_argument). */
function startOf({ query, headers }: HttpRequest): StartPoint {
  // Polyfills cannot set the header across origins: this is their default parameter.
  const returning = String(headers['last-event-id'] ?? '') || single(query, 'lastEventId');
  const last = returning || single(query, 'last_event_id');
  if (last !== '') return { lastSeen: seenOf(last) };
  const height = heightIn(query, 'from');
  return height === undefined ? 'next' : { height };
}

/** Expected errors: ApiError (invalid_argument). */
function seenOf(eventId: string): { height: number; blockId: ReturnType<typeof parseIdentifier> } {
  const [, heightText = '', blockText] = /^(-1|\d+)(?:-(.*))?$/s.exec(eventId) ?? [];
  const height = heightText === '-1' ? -1 : parseHeight(heightText);
  const blockId = blockText === undefined ? undefined : parseIdentifier(blockText);
  if (height !== undefined && (blockText === undefined || blockId !== undefined)) return { height, blockId };
  throw invalidArgument(
    `invalid Last-Event-ID: expected HEIGHT-BLOCKID as in the events, got ${quoted(eventId)}`,
  );
}

/** One event. Its id, height and block, is where the stream can be resumed. */
function eventText(event: FeedEvent): string {
  const document =
    event.kind === 'height'
      ? heightDocument(event)
      : { height: event.height, block_id: event.blockId ?? null };
  const { height, block_id: blockId } = document;
  const id = blockId === null ? String(height) : `${height}-${blockId}`;
  return `id: ${id}\nevent: ${event.kind}\ndata: ${JSON.stringify(document)}\n\n`;
}

function heightDocument({ stored, isSealed, isProven }: HeightEvent): T.Described<typeof heightSchema> {
  const { block } = stored;
  return {
    height: block.height,
    block_id: block.id,
    parent_id: block.parentId,
    timestamp: rfc3339(timeOfBlock(block.encoded)),
    collections: countCollections(stored),
    sealed: isSealed,
    proven: isProven,
  };
}
