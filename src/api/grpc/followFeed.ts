import { ApiError } from '../view/ApiError.js';
import type { ChangeFeed } from '../feed/ChangeFeed.js';
import type { Cursor, FeedEvent, FeedSink } from '../feed/feedEvents.js';
import type { StartPoint } from '../feed/feedStart.js';
import type { StreamSink } from './calls.js';

/** A follower's stream over gRPC, one message per event. */
export function feedSink(sink: StreamSink, encode: (event: FeedEvent) => Buffer): FeedSink {
  return {
    send: (event, taken) => sink.write(encode(event), taken),
    end: (reason) => sink.refuse(reason),
  };
}

/**
 * The starting point of a stream. As on access nodes, a start below the first height is an invalid argument: it will
 * never exist, whereas what is not found may be requested again. Expected errors: as `ChangeFeed.cursorAt`.
 */
export async function streamCursor(
  feed: ChangeFeed,
  point: StartPoint,
  { waits = false } = {},
): Promise<Cursor> {
  try {
    return await feed.cursorAt(point, { waits });
  } catch (error) {
    if (!(error instanceof ApiError) || error.reason !== 'below_first_indexed') throw error;
    throw new ApiError(400, error.reason, error.message, error.range);
  }
}
