import { DatabaseFault, type HeightRange, type StorageError } from '../../storage/index.js';
import * as T from '../Schema.js';
import { coverageOf, lastReadable, type IndexedRange } from './indexedRange.js';
import { edges } from './statusDocument.js';

/** Machine-readable reasons of refusals, with their HTTP statuses and the meaning in the OpenAPI document. */
export const refusals = {
  not_yet_indexed: { statuses: [404], when: 'above the latest indexed height, or nothing is indexed yet' },
  below_first_indexed: { statuses: [404], when: 'below the first indexed height' },
  hole: { statuses: [404], when: 'missing between heights that are indexed' },
  healing: { statuses: [503], when: 'what is asked for was stored, is damaged, and is fetched again' },
  unknown_id: { statuses: [404], when: 'nothing with this id in the indexed heights' },
  malformed_id: { statuses: [400], when: 'the id is not 64 hexadecimal digits' },
  malformed_address: { statuses: [400], when: 'the address is not 16 hexadecimal digits' },
  index_off: { statuses: [404], when: 'the account index is off' },
  invalid_argument: { statuses: [400], when: 'a parameter is malformed, missing, or contradicts another' },
  too_many: { statuses: [400], when: 'more heights or ids than one request may name' },
  not_served: {
    statuses: [400],
    when: 'only access nodes have it: an expansion, or a scheduled transaction by number',
  },
  upstream_unreachable: { statuses: [503], when: 'a forwarded request reaches no access node' },
  upstream_refusing: {
    statuses: [503],
    when: 'the access node that a request is forwarded to does not accept the daemon (access.metadataFile)',
  },
  method_not_allowed: { statuses: [405], when: 'another method than GET and HEAD' },
  unauthorized: { statuses: [401], when: 'a bearer token is needed, and the request has no known one' },
  origin_refused: { statuses: [403], when: 'a page of an origin that api.corsOrigins does not name' },
  too_large: { statuses: [414], when: 'the URL is too long' },
  rate_limited: { statuses: [429], when: 'more requests than one address, or one connection, may send' },
  busy: { statuses: [503], when: 'too much is under way: large responses, streams, or open files' },
  bad_request: { statuses: [400], when: 'the path is not well-formed' },
  storage: { statuses: [500, 503], when: 'the store cannot be read' },
  rewound: {
    statuses: [409],
    when: 'what a stream sent is no longer indexed: the store was rewound; resume with the last event',
  },
  unproven: { statuses: [409], when: 'a proof is asked for, and a block of it is stored without one' },
  overdue: { statuses: [408], when: 'the call did not end in time' },
  indexer_silent: { statuses: [503], when: 'only the indexing thread knows, and it does not answer now' },
  stopping: { statuses: [503], when: 'the daemon is stopping' },
  internal: { statuses: [500], when: 'a bug' },
} as const;
export type ApiErrorReason = keyof typeof refusals;
const errorReasons = Object.keys(refusals) as readonly ApiErrorReason[];

/** Flow's error body (`code`, `message`) and our additions. */
export const errorSchema = T.object(
  {
    code: T.count.note('The HTTP status.'),
    message: T.text.note('One sentence for humans.'),
    reason: T.words(...errorReasons).note('For machines.'),
  },
  edges,
).named('Error');
export type ApiErrorBody = T.Described<typeof errorSchema>;

/** Maximum ranges that a refusal names. */
const MAX_REPORTED_RANGES = 16;

type Details = Pick<ApiError, 'range' | 'height' | 'retryAfterSeconds'>;

/** A request that is refused. The message is one sentence for the caller. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** The HTTP status. */
  readonly code: number;
  readonly reason: ApiErrorReason;
  /** Set if the refusal depends on it. */
  readonly range: IndexedRange | undefined;
  /** The requested height, if any. */
  readonly height: number | undefined;
  /** Until the same request may succeed, if known. */
  readonly retryAfterSeconds: number | undefined;

  constructor(
    code: number,
    reason: ApiErrorReason,
    message: string,
    { range, height, retryAfterSeconds = code === 503 ? 1 : undefined }: Partial<Details> = {},
  ) {
    super(message);
    this.retryAfterSeconds = retryAfterSeconds;
    this.code = code;
    this.reason = reason;
    this.range = range;
    this.height = height;
  }

  body(): ApiErrorBody {
    const { code, height, message, reason, range } = this;
    if (range === undefined) return { code, message, reason };
    const { firstIndexed, head } = range;
    const [latestIndexed, coverage] = [lastReadable(range), reportedRanges(range, height)];
    return { code, message, reason, firstIndexed, latestIndexed, head, coverage };
  }
}

/** `height`: that of a block that a stream has sent or is about to send. */
export function rewound(height: number): ApiError {
  const message = `the index was rewound: it has another block at height ${height} than before, or none; begin again below it`;
  return new ApiError(409, 'rewound', message);
}

export function invalidArgument(message: string): ApiError {
  return new ApiError(400, 'invalid_argument', message);
}

/** Reasons for which an access node may have what the index lacks. */
const elsewhere: ReadonlySet<ApiErrorReason> = new Set<ApiErrorReason>([
  'not_served',
  'not_yet_indexed',
  'below_first_indexed',
  'hole',
  'healing',
  'unknown_id',
]);

/** True if an access node may help. */
export function isElsewhere(error: unknown): error is ApiError {
  return error instanceof ApiError && elsewhere.has(error.reason) && !(error instanceof NoSuchHead);
}

/** A height that cannot be read; the reason says where it lies. */
export function heightOutside(height: number, range: IndexedRange): ApiError {
  if (isHealing(height, range)) return healing(`height ${height} was damaged and is fetched again; retry`);
  const refuse = (reason: ApiErrorReason, message: string): ApiError =>
    new ApiError(404, reason, `height ${height} is ${message}`, { range, height });
  if (range.firstIndexed === null || height >= range.firstIndexed)
    return refuse('not_yet_indexed', `not yet indexed (${extent(range)})`);
  const coverage = coverageOf(range);
  const below = coverage.findLast(({ to }) => to < height);
  const above = coverage.find(({ from }) => from > height)?.from ?? range.firstIndexed;
  if (below === undefined) return refuse('below_first_indexed', `below the first indexed height ${above}`);
  return refuse('hole', `not indexed: it is in a hole, heights ${below.to + 1}..${above - 1}`);
}

export function isHealing(height: number, range: IndexedRange): boolean {
  return range.healing?.some(({ from, to }) => height >= from && height <= to) === true;
}

/** The refusal of stored data that is damaged, or of data that may be. */
export function healing(message: string): ApiError {
  return new ApiError(503, 'healing', message);
}

/** All ranges; of too many, those around the height, or the highest without one. */
function reportedRanges(range: IndexedRange, height = Infinity): readonly HeightRange[] {
  const all = coverageOf(range);
  if (all.length <= MAX_REPORTED_RANGES) return all;
  const above = all.findIndex(({ from }) => from > height);
  const middle = (above === -1 ? all.length : above) - MAX_REPORTED_RANGES / 2;
  const start = Math.max(0, Math.min(all.length - MAX_REPORTED_RANGES, middle));
  return all.slice(start, start + MAX_REPORTED_RANGES);
}

/** The indexed heights in words, of too many ranges only the highest; empty if there are none. */
export function heightsInWords(range: IndexedRange): string {
  const shown = reportedRanges(range).map(({ from, to }) => `${from}..${to}`);
  const others = coverageOf(range).length - shown.length;
  return `${shown.join(', ')}${others === 0 ? '' : ` and ${others} ranges below`}`;
}

/**
 * The index has no such head yet. Nodes have one, but the request is not forwarded: the head would jump between the node's and
 * the index's.
 */
class NoSuchHead extends ApiError {}

/** `final` or `sealed` while no such block can be served. */
export function noSuchHead(which: 'final' | 'sealed', range: IndexedRange): ApiError {
  const message =
    which === 'sealed' && range.head === null && range.latestIndexed !== null
      ? `the newest sealed block is not known here (${extent(range)}); a daemon that follows the chain knows it`
      : `no ${which} block is indexed yet (${extent(range)})`;
  return new NoSuchHead(404, 'not_yet_indexed', message, { range });
}

/** The refusal of all requests while the daemon stops. */
export function stopping(): ApiError {
  return new ApiError(503, 'stopping', 'the daemon is stopping; retry, or ask another one');
}

/** The refusal while the indexing thread does not answer. */
export function indexerSilent(): ApiError {
  const message =
    'this needs the indexing thread, which does not answer now; indexed data is still served; retry';
  return new ApiError(503, 'indexer_silent', message);
}

/** The refusal while the first height is not known. */
export function nothingIndexed(range: IndexedRange): ApiError {
  return new ApiError(404, 'not_yet_indexed', `nothing is indexed yet (${extent(range)})`, { range });
}

export function unknownId(what: 'block' | 'collection' | 'transaction', range: IndexedRange): ApiError {
  if (range.healing !== undefined && range.healing.length > 0)
    return healing(
      `no such ${what} in the heights that can be read, but some are damaged and fetched again; retry`,
    );
  const heights = heightsInWords(range);
  if (heights === '') return nothingIndexed(range);
  const message = `no such ${what} in heights ${heights}`;
  return new ApiError(404, 'unknown_id', message, { range });
}

/** The refusal of a request that exceeds a limit on concurrent work. */
export function busy(message: string): ApiError {
  return new ApiError(503, 'busy', message);
}

/** The refusal while no file or connection can be opened. */
export function outOfFiles(): ApiError {
  return busy('the daemon can open no further file or connection now; /readyz says why; retry');
}

/** A failed read of the store. The message contains no paths: those are in the log. */
export function storageRefusal(error: StorageError): ApiError {
  if (error instanceof DatabaseFault)
    return new ApiError(503, 'storage', 'the database that holds the index cannot be read now; retry');
  if (error.kind === 'too_many_files') return outOfFiles();
  if (error.kind === 'corrupt') return healing('the stored record is damaged, and is fetched again; retry');
  return new ApiError(500, 'storage', 'the store cannot be read; see the daemon log');
}

function extent(range: IndexedRange): string {
  const latest = lastReadable(range) ?? (range.firstIndexed === null ? 'unknown' : 'none');
  return `latest ${latest}, head ${range.head ?? 'unknown'}`;
}
