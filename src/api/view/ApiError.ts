import type { StorageError } from '../../storage/index.js';
import { lastReadable } from './statusDocument.js';
import type { IndexedRange } from './statusDocument.js';

/** Why a request was refused, for machines. */
export const errorReasons = [
  /** The height is above the watermark. */
  'not_yet_indexed',
  /** The height is below the first height of the store. */
  'below_first_indexed',
  /** No block, collection or transaction of this id within the indexed heights. */
  'unknown_id',
  'malformed_id',
  'malformed_address',
  /** The account index, which this store or this daemon does not keep. */
  'index_off',
  'invalid_argument',
  /** More heights or ids than one request may name. */
  'too_many',
  /** A route, or an expansion, that only access nodes serve. */
  'not_served',
  /** What is requested is forwarded to access nodes, and none can be reached. */
  'upstream_unreachable',
  'method_not_allowed',
  /** A page of an origin that the operator does not allow. */
  'origin_refused',
  'too_large',
  /** More requests per second than one address may send. */
  'rate_limited',
  /** Too many responses wait to be taken by callers. */
  'busy',
  'bad_request',
  'storage',
  /** A call that did not end in time. */
  'overdue',
  /** The thread that indexes, which alone knows the answer, did not give it in time. */
  'indexer_silent',
  /** The daemon is being stopped. */
  'stopping',
  'internal',
] as const;
export type ApiErrorReason = (typeof errorReasons)[number];

/** Flow's error body (`code`, `message`) and what we add to it. */
export interface ApiErrorBody {
  /** The HTTP status. */
  readonly code: number;
  readonly message: string;
  readonly reason: ApiErrorReason;
  /** The indexed range, where the answer depends on it. */
  readonly firstIndexed?: number | null;
  readonly latestIndexed?: number | null;
  readonly head?: number | null;
}

/** A request that gets an error body instead of a response. The message is one sentence for the caller. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** The HTTP status. */
  readonly code: number;
  readonly reason: ApiErrorReason;
  readonly range: IndexedRange | undefined;

  constructor(code: number, reason: ApiErrorReason, message: string, range?: IndexedRange) {
    super(message);
    this.code = code;
    this.reason = reason;
    this.range = range;
  }

  body(): ApiErrorBody {
    const { code, message, reason, range } = this;
    if (range === undefined) return { code, message, reason };
    const { firstIndexed, head } = range;
    return { code, message, reason, firstIndexed, latestIndexed: lastReadable(range), head };
  }
}

/** Reasons with which an access node may still have the answer: only the index lacks it. */
const elsewhere: ReadonlySet<ApiErrorReason> = new Set<ApiErrorReason>([
  'not_served',
  'not_yet_indexed',
  'below_first_indexed',
  'unknown_id',
]);

/**
 * True where an access node may have the answer. Nobody else can answer for the index itself, such as where it ends.
 */
export function isElsewhere(error: unknown): error is ApiError {
  return error instanceof ApiError && elsewhere.has(error.reason) && !(error instanceof NoSuchHead);
}

/** A height outside the range; the reason says on which side. */
export function heightOutside(height: number, range: IndexedRange): ApiError {
  if (range.firstIndexed !== null && height < range.firstIndexed) {
    const message = `height ${height} is below the first indexed height ${range.firstIndexed}`;
    return new ApiError(404, 'below_first_indexed', message, range);
  }
  return new ApiError(404, 'not_yet_indexed', `height ${height} is not yet indexed (${edges(range)})`, range);
}

/**
 * The index has no such head yet. A node has one, but it is not forwarded: the head would jump between the node's and
 * the index's.
 */
class NoSuchHead extends ApiError {}

/** `final` or `sealed` while no such block can be served. */
export function noSuchHead(which: 'final' | 'sealed', range: IndexedRange): ApiError {
  const message =
    which === 'sealed' && range.head === null && range.latestIndexed !== null
      ? `which block is the newest sealed one is not known here (${edges(range)}); a daemon that follows the chain knows it`
      : `no ${which} block is indexed yet (${edges(range)})`;
  return new NoSuchHead(404, 'not_yet_indexed', message, range);
}

/** The refusal of all requests while the daemon stops. */
export function stopping(): ApiError {
  return new ApiError(503, 'stopping', 'the daemon is stopping; retry, or ask another one');
}

/** The refusal of what only the thread that indexes can answer, while that does not. */
export function indexerSilent(): ApiError {
  const message =
    'the thread that indexes, which this needs, does not answer now; what is indexed is served all the same: ask again';
  return new ApiError(503, 'indexer_silent', message);
}

/** For what cannot be said before the first height is known. */
export function nothingIndexed(range: IndexedRange): ApiError {
  return new ApiError(404, 'not_yet_indexed', `nothing is indexed yet (${edges(range)})`, range);
}

export function unknownId(what: 'block' | 'collection' | 'transaction', range: IndexedRange): ApiError {
  const { firstIndexed, latestIndexed } = range;
  if (firstIndexed === null || latestIndexed === null || latestIndexed < firstIndexed) {
    return nothingIndexed(range);
  }
  const message = `no such ${what} in heights ${firstIndexed}..${latestIndexed}`;
  return new ApiError(404, 'unknown_id', message, range);
}

/** A failed read of the store. The message contains no paths: those are in the log. */
export function storageRefusal(error: StorageError): ApiError {
  if (error.kind === 'unavailable') {
    return new ApiError(503, 'storage', 'the database that holds the index does not answer now; ask again');
  }
  const what = error.kind === 'corrupt' ? 'the stored record is damaged' : 'the store cannot be read';
  return new ApiError(500, 'storage', `${what}; see the daemon log`);
}

function edges(range: IndexedRange): string {
  const latest = lastReadable(range) ?? (range.firstIndexed === null ? 'unknown' : 'none');
  return `latest ${latest}, head ${range.head ?? 'unknown'}`;
}
