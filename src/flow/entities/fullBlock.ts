import { WireError } from '../WireError.js';
import { FieldScan, type Span } from '../wire/FieldScan.js';
import { RequestFields } from '../wire/RequestFields.js';

/** The largest block accepted, in any form. A full block of mainnet takes some 12 kB. */
export const MAX_BLOCK_BYTES = 4 * 1024 * 1024;

export type FullBlock = Readonly<ReturnType<typeof scanFullBlock>>;
export type FullGuarantee = Readonly<ReturnType<typeof guaranteeOf>>;
export type FullSeal = Readonly<ReturnType<typeof sealOf>>;
export type ReceiptMeta = Readonly<ReturnType<typeof receiptOf>>;
export type FullHeader = Readonly<ReturnType<typeof headerOf>>;
export type TimeoutCertificate = Readonly<ReturnType<typeof timeoutOf>>;

/**
 * Finds the parts of a `flow.entities.Block` in one pass: all that its id covers, and the copies of that. Verifies nothing;
 * only the header may be absent, in the light form. A singular field that occurs twice is refused instead of merged or
 * skipped: no node sends it, and no two readers may see different blocks.
 *
 * Expected errors: `WireError`, also for too many bytes or fields, and for a height or view that is not a safe integer.
 */
export function scanFullBlock(message: Uint8Array) {
  if (message.length > MAX_BLOCK_BYTES) {
    throw new WireError(`a block has more than ${MAX_BLOCK_BYTES} bytes`);
  }
  const scan = new FieldScan(message);
  const block = scan.fields({ start: 0, length: message.length }, 11, 0b11_1110_0000);
  return {
    bytes: scan.bytes,
    id: block.span(1),
    parentId: block.span(2),
    height: block.number(3),
    timestamp: timeOf(scan, block.span(4)),
    guarantees: block.list(5).map((span) => guaranteeOf(scan, span)),
    seals: block.list(6).map((span) => sealOf(scan, span)),
    signatures: block.list(7),
    receipts: block.list(8).map((span) => receiptOf(scan, span)),
    /** `flow.entities.ExecutionResult` each, unread. */
    results: block.list(9),
    header: block.has(10) ? headerOf(scan, block.span(10)) : undefined,
    protocolStateId: block.span(11),
  };
}

/** Seconds since the Unix epoch, and nanoseconds, as sent. */
function timeOf(scan: FieldScan, span: Span) {
  const time = scan.fields(span, 2);
  return { seconds: time.signed(1), nanos: time.signed(2) };
}

function guaranteeOf(scan: FieldScan, span: Span) {
  const guarantee = scan.fields(span, 7, 0b10_0100);
  return {
    collectionId: guarantee.span(1),
    signatures: guarantee.list(2),
    referenceBlockId: guarantee.span(3),
    signature: guarantee.span(4),
    signerIds: guarantee.list(5),
    signerIndices: guarantee.span(6),
    clusterChainId: guarantee.span(7),
  };
}

function sealOf(scan: FieldScan, span: Span) {
  const seal = scan.fields(span, 7, 0b1001_1000);
  return {
    blockId: seal.span(1),
    finalState: seal.span(5),
    resultId: seal.span(6),
    /** One per chunk. */
    approvals: seal.list(7).map((of) => {
      const chunk = scan.fields(of, 2, 0b110);
      return { signatures: chunk.list(1), signerIds: chunk.list(2) };
    }),
  };
}

function receiptOf(scan: FieldScan, span: Span) {
  const receipt = scan.fields(span, 4, 0b1000);
  return {
    executorId: receipt.span(1),
    resultId: receipt.span(2),
    spocks: receipt.list(3),
    executorSignature: receipt.span(4),
  };
}

function headerOf(scan: FieldScan, span: Span) {
  const header = scan.fields(span, 14, 0b1000_0000);
  return {
    id: header.span(1),
    parentId: header.span(2),
    height: header.number(3),
    timestamp: timeOf(scan, header.span(4)),
    payloadHash: header.span(5),
    view: header.number(6),
    parentVoterIds: header.list(7),
    parentVoterSigData: header.span(8),
    proposerId: header.span(9),
    chainId: header.span(11),
    parentVoterIndices: header.span(12),
    lastViewTC: header.has(13) ? timeoutOf(scan, header.span(13)) : undefined,
    parentView: header.number(14),
  };
}

/** A `flow.entities.TimeoutCertificate` at a place. Expected errors: `WireError`. */
export function timeoutOf(scan: FieldScan, span: Span) {
  const timeout = scan.fields(span, 5, 0b100);
  if (!timeout.has(3)) throw new WireError('a timeout certificate holds no quorum certificate');
  const certificate = scan.fields(timeout.span(3), 4);
  return {
    view: timeout.number(1),
    /** Packed, as nodes send them. */
    highQcViews: timeout.list(2).flatMap((packed) => scan.views(packed)),
    highestQc: {
      view: certificate.number(1),
      blockId: certificate.span(2),
      signerIndices: certificate.span(3),
      sigData: certificate.span(4),
    },
    signerIndices: timeout.span(4),
    sigData: timeout.span(5),
  };
}

/** What an execution node claims about a block, as on the wire. Byte fields are views of the message; ids are not checked. */
export type ExecutionResult = Readonly<ReturnType<typeof decodeExecutionResult>>;
export type Chunk = Readonly<ReturnType<typeof decodeChunk>>;

/** Decodes `flow.entities.ExecutionResult`. Expected errors: `WireError`. */
export function decodeExecutionResult(encoded: Uint8Array) {
  const fields = new RequestFields(encoded);
  return {
    previousResultId: fields.bytes(1),
    blockId: fields.bytes(2),
    chunks: fields.all(3).map(decodeChunk),
    serviceEvents: fields.all(4).map((event) => {
      const parts = new RequestFields(event);
      /** `payload` is JSON. */
      return { type: parts.text(1), payload: parts.bytes(2) };
    }),
    executionDataId: fields.bytes(5),
  };
}

function decodeChunk(encoded: Uint8Array) {
  const fields = new RequestFields(encoded);
  return {
    collectionIndex: Number(fields.number(1)),
    startState: fields.bytes(2),
    eventCollection: fields.bytes(3),
    blockId: fields.bytes(4),
    totalComputationUsed: fields.number(5),
    numberOfTransactions: Number(fields.number(6)),
    index: fields.number(7),
    endState: fields.bytes(8),
    /** As sent: nodes mark an absent count with a bit above the 16th. */
    serviceEventCount: Number(fields.number(11)),
  };
}
