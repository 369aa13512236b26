import type { HeightRange, StorageError } from '../../storage/index.js';
import { coverageOf, lastReadable, MAX_RANGES_TOLD } from './statusDocument.js';
import type { IndexedRange } from './statusDocument.js';

/** Why a request was refused, for machines. */
export const errorReasons = [
  /** The height is above the watermark. */
  'not_yet_indexed',
  /** The height is below every height that is indexed. */
  'below_first_indexed',
  /** The height is missing between heights that are indexed. */
  'hole',
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
  /** The ranges of heights that are indexed; of very many, those next to the height that was asked for. */
  readonly coverage?: readonly HeightRange[];
}

/** A request that gets an error body instead of a response. The message is one sentence for the caller. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** The HTTP status. */
  readonly code: number;
  readonly reason: ApiErrorReason;
  readonly range: IndexedRange | undefined;
  /** The ranges to tell of. */
  readonly coverage: readonly HeightRange[];

  constructor(code: number, reason: ApiErrorReason, message: string, range?: IndexedRange, height?: number) {
    super(message);
    this.code = code;
    this.reason = reason;
    this.range = range;
    this.coverage = range === undefined ? [] : toldRanges(range, height);
  }

  body(): ApiErrorBody {
    const { code, message, reason, range } = this;
    if (range === undefined) return { code, message, reason };
    const { firstIndexed, head } = range;
    const latestIndexed = lastReadable(range);
    return { code, message, reason, firstIndexed, latestIndexed, head, coverage: this.coverage };
  }
}

/** Reasons with which an access node may still have the answer: only the index lacks it. */
const elsewhere: ReadonlySet<ApiErrorReason> = new Set<ApiErrorReason>([
  'not_served',
  'not_yet_indexed',
  'below_first_indexed',
  'hole',
  'unknown_id',
]);

/**
 * True where an access node may have the answer. Nobody else can answer for the index itself, such as where it ends.
 */
export function isElsewhere(error: unknown): error is ApiError {
  return error instanceof ApiError && elsewhere.has(error.reason) && !(error instanceof NoSuchHead);
}

/** A height that cannot be read; the reason says where it lies. */
export function heightOutside(height: number, range: IndexedRange): ApiError {
  if (range.firstIndexed !== null && height < range.firstIndexed) {
    const first = coverageOf(range)[0]?.from ?? range.firstIndexed;
    if (height > first) return holeAt(height, range);
    const message = `height ${height} is below the first indexed height ${first}`;
    return new ApiError(404, 'below_first_indexed', message, range, height);
  }
  const message = `height ${height} is not yet indexed (${edges(range)})`;
  return new ApiError(404, 'not_yet_indexed', message, range, height);
}

/** A height that is missing between others. */
export function holeAt(height: number, range: IndexedRange): ApiError {
  const below = coverageOf(range).findLast(({ to }) => to < height);
  const above = coverageOf(range).find(({ from }) => from > height);
  const hole = `heights ${below === undefined ? '' : below.to + 1}..${above === undefined ? '' : above.from - 1}`;
  const message = `height ${height} is not indexed: it is in a hole, ${hole}`;
  return new ApiError(404, 'hole', message, range, height);
}

/** All ranges, or of very many those next to the height, else the highest. */
function toldRanges(range: IndexedRange, height = Infinity): readonly HeightRange[] {
  const all = coverageOf(range);
  if (all.length <= MAX_RANGES_TOLD) return all;
  const above = all.findIndex(({ from }) => from > height);
  const middle = (above === -1 ? all.length : above) - MAX_RANGES_TOLD / 2;
  const start = Math.max(0, Math.min(all.length - MAX_RANGES_TOLD, middle));
  return all.slice(start, start + MAX_RANGES_TOLD);
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
  const told = toldRanges(range);
  if (told.length === 0) return nothingIndexed(range);
  const heights = told.map(({ from, to }) => `${from}..${to}`).join(', ');
  const message = `no such ${what} in heights ${heights}`;
  return new ApiError(404, 'unknown_id', message, range);
}

/** A failed read of the store. The message contains no paths: those are in the log. */
export function storageRefusal(error: StorageError): ApiError {
  const what = error.kind === 'corrupt' ? 'the stored record is damaged' : 'the store cannot be read';
  return new ApiError(500, 'storage', `${what}; see the daemon log`);
}

function edges(range: IndexedRange): string {
  const latest = lastReadable(range) ?? (range.firstIndexed === null ? 'unknown' : 'none');
  return `latest ${latest}, head ${range.head ?? 'unknown'}`;
}
