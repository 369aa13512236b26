import type { RequestFields } from '../../../flow/index.js';
import type { ChangeFeed } from '../../feed/ChangeFeed.js';
import type { Following } from '../../feed/following.js';
import type { Cursor, FeedEvent } from '../../feed/feedEvents.js';
import type { StartPoint } from '../../feed/feedStart.js';
import { ApiError } from '../../view/ApiError.js';
import type { StreamCall } from './calls.js';

/** What a stream of the change feed sends. */
export interface FeedStream extends Pick<Following, 'kind' | 'until' | 'waits'> {
  readonly start: StartPoint;
  readonly encode: (event: FeedEvent) => Buffer;
}

/** A call that follows the change feed, one message per event. */
export function feedStream(feed: ChangeFeed, parse: (request: RequestFields) => FeedStream): StreamCall {
  return async (request, sink) => {
    const { kind, until, waits = false, start, encode } = parse(request);
    const from = await streamStart(feed, start, { waits });
    return feed.follow(
      { kind, from, until, waits },
      {
        send: (event, taken) => sink.write(encode(event), taken),
        end: (reason) => sink.refuse(reason),
      },
    );
  };
}

/**
 * Where a stream begins. As on access nodes, a start below every indexed height is an invalid argument: it will never
 * exist, whereas what is not found may be requested again. Expected errors: those of `ChangeFeed.cursorAt`.
 */
export async function streamStart(
  feed: ChangeFeed,
  point: StartPoint,
  { waits }: { readonly waits: boolean },
): Promise<Cursor> {
  return feed.cursorAt(point, { waits }).catch((error: unknown) => {
    if (!(error instanceof ApiError) || error.reason !== 'below_first_indexed') throw error;
    throw new ApiError(400, error.reason, error.message, error.range, error.height);
  });
}
