import { Metadata, status, type StatusObject } from '@grpc/grpc-js';
import type { ApiError, ApiErrorReason } from '../view/ApiError.js';

/** By HTTP status, what a refusal is in gRPC, unless its reason says otherwise. */
const codes: Readonly<Record<number, status>> = {
  400: status.INVALID_ARGUMENT,
  401: status.UNAUTHENTICATED,
  404: status.NOT_FOUND,
  408: status.DEADLINE_EXCEEDED,
  409: status.ABORTED,
  413: status.RESOURCE_EXHAUSTED,
  429: status.RESOURCE_EXHAUSTED,
  500: status.INTERNAL,
  503: status.UNAVAILABLE,
};
const codesOfReasons: Partial<Readonly<Record<ApiErrorReason, status>>> = {
  not_served: status.UNIMPLEMENTED,
  index_off: status.FAILED_PRECONDITION,
  busy: status.RESOURCE_EXHAUSTED,
  storage: status.UNAVAILABLE,
};

/**
 * The status of a refused call: the same message as in REST. The trailing metadata hold
 * `reason` and, where the response depends on them and they are known, `first-indexed`, `latest-indexed`, `head` and
 * `coverage` (the indexed ranges, such as `10-20,30-40`).
 */
export function refusalOf(error: ApiError): StatusObject {
  const { coverage = [], firstIndexed, head, latestIndexed, message, reason } = error.body();
  const metadata = new Metadata();
  metadata.set('reason', reason);
  const edges = { 'first-indexed': firstIndexed, 'latest-indexed': latestIndexed, head };
  for (const [key, height] of Object.entries(edges)) {
    if (typeof height === 'number') metadata.set(key, String(height));
  }
  if (coverage.length > 0) metadata.set('coverage', coverage.map(({ from, to }) => `${from}-${to}`).join());
  return { code: codesOfReasons[reason] ?? codes[error.code] ?? status.INTERNAL, details: message, metadata };
}
