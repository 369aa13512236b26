import type { RequestFields } from '../../../flow/index.js';
import type { ChangeFeed } from '../../feed/ChangeFeed.js';
import type { Following } from '../../feed/following.js';
import type { Cursor, FeedEvent } from '../../feed/feedEvents.js';
import type { StartPoint } from '../../feed/feedStart.js';
import { ApiError, invalidArgument } from '../../view/ApiError.js';
import type { StreamCall } from './calls.js';

const FINALITY = 4;
const finalities = ['indexed', 'proven'] as const;

/** What a stream of the change feed sends. */
export interface FeedStream extends Pick<Following, 'kind' | 'until' | 'waits'> {
  readonly start: StartPoint;
  readonly encode: (event: FeedEvent) => Buffer;
  /** Refuses a stream that could not send what is there to begin with. Expected errors: ApiError. */
  readonly check?: ((from: Cursor) => Promise<void>) | undefined;
}

/** A call that follows the change feed, one message per event. */
export function feedStream(feed: ChangeFeed, parse: (request: RequestFields) => FeedStream): StreamCall {
  return async (request, sink) => {
    const { check, kind, until, waits = false, start, encode } = parse(request);
    const from = await streamStart(feed, start, { until, waits });
    await check?.(from);
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
  following: Pick<Following, 'until' | 'waits'>,
): Promise<Cursor> {
  return feed.cursorAt(point, following).catch((error: unknown) => {
    if (!(error instanceof ApiError) || error.reason !== 'below_first_indexed') throw error;
    throw new ApiError(400, error.reason, error.message, error.range, error.height);
  });
}

/** `Finality` of a request of `IndexAPI`, the same field in each. Expected errors: ApiError (invalid_argument). */
export function finalityOf(request: RequestFields): Following['until'] {
  const until = finalities[Number(request.number(FINALITY))];
  if (until !== undefined) return until;
  throw invalidArgument('finality must be FINALITY_REPORTED or FINALITY_PROVEN');
}
