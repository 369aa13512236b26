import { lastReadable } from '../view/indexedRange.js';
import { Metadata, status } from '@grpc/grpc-js';
import type { ApiError, ApiErrorReason } from '../view/ApiError.js';

/** How a call ends other than with a response, in the form that grpc-js takes. */
export interface CallRefusal {
  readonly code: status;
  readonly details: string;
  readonly metadata: Metadata;
}

const codes: Readonly<Record<ApiErrorReason, status>> = {
  not_yet_indexed: status.NOT_FOUND,
  below_first_indexed: status.NOT_FOUND,
  hole: status.NOT_FOUND,
  unknown_id: status.NOT_FOUND,
  malformed_id: status.INVALID_ARGUMENT,
  malformed_address: status.INVALID_ARGUMENT,
  index_off: status.FAILED_PRECONDITION,
  invalid_argument: status.INVALID_ARGUMENT,
  too_many: status.INVALID_ARGUMENT,
  bad_request: status.INVALID_ARGUMENT,
  not_served: status.UNIMPLEMENTED,
  upstream_unreachable: status.UNAVAILABLE,
  upstream_refusing: status.FAILED_PRECONDITION,
  method_not_allowed: status.UNIMPLEMENTED,
  unauthorized: status.UNAUTHENTICATED,
  origin_refused: status.PERMISSION_DENIED,
  too_large: status.RESOURCE_EXHAUSTED,
  rate_limited: status.RESOURCE_EXHAUSTED,
  busy: status.RESOURCE_EXHAUSTED,
  healing: status.UNAVAILABLE,
  storage: status.UNAVAILABLE,
  rewound: status.ABORTED,
  unproven: status.FAILED_PRECONDITION,
  overdue: status.DEADLINE_EXCEEDED,
  indexer_silent: status.UNAVAILABLE,
  stopping: status.UNAVAILABLE,
  internal: status.INTERNAL,
};

/**
 * The status of a refused call, INVALID_ARGUMENT for a 400: the same message as in REST. The trailing metadata hold
 * `reason` and, where the response depends on them and they are known, `first-indexed`, `latest-indexed`, `head` and
 * `coverage` (the indexed ranges, such as `10-20,30-40`).
 */
export function refusalOf(error: ApiError): CallRefusal {
  const { coverage, reason, message, range } = error;
  const metadata = new Metadata();
  metadata.set('reason', reason);
  const edges = {
    'first-indexed': range?.firstIndexed,
    'latest-indexed': range && lastReadable(range),
    head: range?.head,
  };
  for (const [key, height] of Object.entries(edges)) {
    if (typeof height === 'number') metadata.set(key, String(height));
  }
  if (coverage.length > 0) metadata.set('coverage', coverage.map(({ from, to }) => `${from}-${to}`).join());
  return { code: error.code === 400 ? status.INVALID_ARGUMENT : codes[reason], details: message, metadata };
}
