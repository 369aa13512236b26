import type { ServerDuplexStream, UntypedHandleCall } from '@grpc/grpc-js';
import { IDENTIFIER_BYTES, identifierBytes, RequestFields } from '../../../flow/index.js';
import { toIdentifier, WireError, WireWriter } from '../../../flow/index.js';
import type { FinalizedBlock, Identifier, Timestamp } from '../../../flow/index.js';
import { readHeader, type BlockHasher } from '../../../proof/index.js';
import type { FeedSink } from '../../feed/following.js';
import type { Cost } from '../../guard/TokenGuard.js';
import { ApiError, invalidArgument } from '../../view/ApiError.js';

const FINALITY = 4;
const finalities = ['indexed', 'proven'] as const;

/** Returns an encoded message. Throws ApiError or StorageError for what is expected; anything else it throws is a bug. */
export type UnaryCall = (request: RequestFields) => Buffer | Promise<Buffer>;

/** Begins a stream; returns a function to call when it is over. Expected errors: those of `UnaryCall`. */
export type StreamCall = (
  request: RequestFields,
  sink: FeedSink<Buffer>,
) => (() => void) | Promise<() => void>;

/** A call of which the library passes every message. */
export type DuplexCall = ServerDuplexStream<Buffer, Buffer>;

/** `google.protobuf.Timestamp`. */
export function timestampMessage({ seconds, nanos }: Timestamp): Buffer {
  return new WireWriter().number(1, seconds).number(2, nanos).finish();
}

/** How a call is handled, bytes in and bytes out. */
export interface ServedCall {
  readonly type: 'unary' | 'serverStream' | 'bidi';
  readonly handler: UntypedHandleCall;
  /** What it costs: `expensive` where its response may be as large as a block, or take as much to make. */
  readonly cost: Cost;
  /** A node answers. */
  readonly isForwarded?: boolean;
}

/** By path (`/package.Service/Method`). */
export type ServedCalls = ReadonlyMap<string, ServedCall>;

/** Expected errors: ApiError (bad_request). */
export function fieldsOf(request: Buffer): RequestFields {
  try {
    return new RequestFields(request);
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    throw new ApiError(400, 'bad_request', `the request cannot be read: ${error.message}`);
  }
}

/** Expected errors: ApiError (malformed_id). */
export function idOf(what: string, bytes: Uint8Array): Identifier {
  if (bytes.length === IDENTIFIER_BYTES) return toIdentifier(bytes);
  const message = `invalid ${what} ID: expected ${IDENTIFIER_BYTES} raw bytes, got ${bytes.length}`;
  throw new ApiError(400, 'malformed_id', message);
}

/** Expected errors: ApiError (invalid_argument). */
export function heightOf(height: bigint): number {
  if (height <= Number.MAX_SAFE_INTEGER) return Number(height);
  throw invalidArgument(`invalid height: expected a number up to ${Number.MAX_SAFE_INTEGER}, got ${height}`);
}

/** `ProvableBlock`, as another indexer takes it. */
export function provableBlock({ encoded, proof }: FinalizedBlock): Buffer {
  return new WireWriter()
    .element(1, encoded)
    .bytes(2, proof ?? new Uint8Array())
    .finish();
}

/**
 * `flow.entities.BlockHeader` of a stored block, with every field that its id covers. `hasher`: one for many calls. Expected
 * errors: ApiError (not_served) where the index has only the light form.
 */
export function headerMessage(
  { encoded, height, proof }: FinalizedBlock,
  chainId: string,
  hasher: BlockHasher,
): Buffer {
  if (proof === undefined) {
    const message = `the header of block ${height} is not served: this index has it in its light form only; ask an access node, or have the daemon forward such calls (api.forward)`;
    throw new ApiError(404, 'not_served', message);
  }
  const header = readHeader(encoded, proof, chainId, hasher);
  const writer = new WireWriter()
    .bytes(1, identifierBytes(header.id))
    .bytes(2, identifierBytes(header.parentId))
    .number(3, height)
    .element(4, timestampMessage(header.timestamp))
    .bytes(5, header.payloadHash)
    .number(6, header.view)
    .elements(7, header.parentVoterIds)
    .bytes(8, header.parentVoterSigData)
    .bytes(9, header.proposerId)
    .text(11, chainId)
    .bytes(12, header.parentVoterIndices);
  if (header.lastViewTC !== undefined) writer.element(13, header.lastViewTC);
  return writer.number(14, header.parentView).finish();
}

/**
 * Refuses `full_block_response`, which requests seals, receipts and results. An index does not keep them, and a
 * light block would look like a full block that has none. Expected errors: ApiError (not_served).
 */
export function refuseFullBlock(isRequested: boolean): void {
  if (!isRequested) return;
  const message =
    'full_block_response is not served: this index keeps no seals, receipts and results; leave it out, ask an access node, or have the daemon forward such calls (api.forward); to feed an indexer, name this one as its --peer too';
  throw new ApiError(404, 'not_served', message);
}

/** `Finality` of a request of `IndexAPI`, the same field in each stream. Expected errors: ApiError (invalid_argument). */
export function finalityOf(request: RequestFields, field = FINALITY): (typeof finalities)[number] {
  const until = finalities[Number(request.number(field))];
  if (until !== undefined) return until;
  throw invalidArgument('finality must be FINALITY_REPORTED or FINALITY_PROVEN');
}
