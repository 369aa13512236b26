import { toIdentifier, ZERO_ID } from '../../flow/index.js';
import type { Identifier } from '../../flow/index.js';
import { ApiError } from '../view/ApiError.js';

const IDENTIFIER_BYTES = ZERO_ID.length / 2;

/** Expected errors: ApiError (malformed_id). */
export function idOf(what: string, bytes: Uint8Array): Identifier {
  if (bytes.length === IDENTIFIER_BYTES) return toIdentifier(bytes);
  const message = `invalid ${what} ID: expected ${IDENTIFIER_BYTES} raw bytes, got ${bytes.length}`;
  throw new ApiError(400, 'malformed_id', message);
}

/** Expected errors: ApiError (invalid_argument). */
export function heightOf(height: bigint): number {
  if (height <= Number.MAX_SAFE_INTEGER) return Number(height);
  const message = `invalid height: expected a number up to ${Number.MAX_SAFE_INTEGER}, got ${height}`;
  throw new ApiError(400, 'invalid_argument', message);
}

/**
 * Refuses `full_block_response`, which requests headers, seals, receipts and results: an index does not keep them, and
 * a light block in place of a full one would look like a block without any. Expected errors: ApiError (not_served).
 */
export function refuseFullBlock(isAsked: boolean): void {
  if (!isAsked) return;
  const message =
    'full_block_response is not served: this index keeps blocks in their light form; ask without it, or ask an access node, or have the daemon forward such calls (api.forward)';
  throw new ApiError(404, 'not_served', message);
}
