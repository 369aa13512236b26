import { WireError } from '../WireError.js';
import { LENGTH_DELIMITED, VARINT, WireReader } from '../wire/WireReader.js';

/** A full block of mainnet takes some 12 kB. Its bytes also bound what is noted of it. */
const MAX_FULL_BLOCK_BYTES = 4 * 1024 * 1024;
/** Fields noted of one block; a full block of mainnet has a few hundred. */
const MAX_NOTED_FIELDS = 100_000;

/** Where a field stands in the message. An absent field has length 0. */
export interface Span {
  readonly start: number;
  readonly length: number;
}

const TWO_POW_32 = 0x1_0000_0000;
const ABSENT: Span = { start: 0, length: 0 };
const NONE: readonly Span[] = [];
/** The highest field of a message that is read, and the repeated ones as a set of bits. */
interface Layout {
  readonly last: number;
  readonly repeated: number;
}

const LAYOUTS = {
  block: { last: 11, repeated: (1 << 5) | (1 << 6) | (1 << 7) | (1 << 8) | (1 << 9) },
  time: { last: 2, repeated: 0 },
  guarantee: { last: 7, repeated: (1 << 2) | (1 << 5) },
  seal: { last: 7, repeated: (1 << 3) | (1 << 4) | (1 << 7) },
  approvals: { last: 2, repeated: (1 << 1) | (1 << 2) },
  receipt: { last: 4, repeated: 1 << 3 },
  header: { last: 14, repeated: 1 << 7 },
  timeout: { last: 5, repeated: 1 << 2 },
  certificate: { last: 4, repeated: 0 },
} as const;

/** A `flow.entities.Block` in full or light form, not judged: what its id covers, and the copies of that. */
export interface FullBlock {
  readonly bytes: Buffer;
  readonly id: Span;
  readonly parentId: Span;
  readonly height: number;
  readonly timestamp: WireTime;
  readonly guarantees: readonly FullGuarantee[];
  readonly seals: readonly FullSeal[];
  readonly signatures: readonly Span[];
  readonly receipts: readonly ReceiptMeta[];
  /** `flow.entities.ExecutionResult` each, unread. */
  readonly results: readonly Span[];
  /** Absent from the light form, and from what nodes of old sporks send. */
  readonly header: FullHeader | undefined;
  readonly protocolStateId: Span;
}

/** Seconds since the Unix epoch, and nanoseconds, as sent. */
export interface WireTime {
  readonly seconds: number;
  readonly nanos: number;
}

export interface FullGuarantee {
  readonly collectionId: Span;
  readonly signatures: readonly Span[];
  readonly referenceBlockId: Span;
  readonly signature: Span;
  readonly signerIds: readonly Span[];
  readonly signerIndices: Span;
  readonly clusterChainId: Span;
}

export interface FullSeal {
  readonly blockId: Span;
  readonly finalState: Span;
  readonly resultId: Span;
  /** One per chunk. */
  readonly approvals: readonly {
    readonly signatures: readonly Span[];
    readonly signerIds: readonly Span[];
  }[];
}

export interface ReceiptMeta {
  readonly executorId: Span;
  readonly resultId: Span;
  readonly spocks: readonly Span[];
  readonly executorSignature: Span;
}

export interface FullHeader {
  readonly id: Span;
  readonly parentId: Span;
  readonly height: number;
  readonly timestamp: WireTime;
  readonly payloadHash: Span;
  readonly view: number;
  readonly parentVoterIds: readonly Span[];
  readonly parentVoterSigData: Span;
  readonly proposerId: Span;
  readonly chainId: Span;
  readonly parentVoterIndices: Span;
  readonly lastViewTC: TimeoutCertificate | undefined;
  readonly parentView: number;
}

export interface TimeoutCertificate {
  readonly view: number;
  readonly highQcViews: readonly number[];
  readonly highestQc: QuorumCertificate;
  readonly signerIndices: Span;
  readonly sigData: Span;
}

export interface QuorumCertificate {
  readonly view: number;
  readonly blockId: Span;
  readonly signerIndices: Span;
  readonly sigData: Span;
}

/**
 * Finds the parts of a block in one pass. A singular field that is there twice is refused instead of merged or passed
 * over: no node sends it, and no two readers may see different blocks.
 *
 * Expected errors: `WireError`, also for too many bytes or fields, and for a height or view that is not a safe integer.
 */
export function scanFullBlock(message: Uint8Array): FullBlock {
  if (message.length > MAX_FULL_BLOCK_BYTES) {
    throw new WireError(`a block has more than ${MAX_FULL_BLOCK_BYTES} bytes`);
  }
  const scan = new Scan(message);
  const block = scan.fields({ start: 0, length: message.length }, LAYOUTS.block);
  return {
    bytes: scan.reader.bytes,
    id: block.bytes(1),
    parentId: block.bytes(2),
    height: block.number(3),
    timestamp: timeOf(scan, block.bytes(4)),
    guarantees: block.list(5).map((span) => guaranteeOf(scan, span)),
    seals: block.list(6).map((span) => sealOf(scan, span)),
    signatures: block.list(7),
    receipts: block.list(8).map((span) => receiptOf(scan, span)),
    results: block.list(9),
    header: block.has(10) ? headerOf(scan, block.bytes(10)) : undefined,
    protocolStateId: block.bytes(11),
  };
}

/** The same for a `flow.entities.TimeoutCertificate` at a place in `bytes`. Expected errors: `WireError`. */
export function scanTimeoutCertificate(bytes: Uint8Array, span: Span): TimeoutCertificate {
  return timeoutOf(new Scan(bytes), span);
}

function timeOf(scan: Scan, span: Span): WireTime {
  const time = scan.fields(span, LAYOUTS.time);
  return { seconds: time.signed(1), nanos: time.signed(2) };
}

function guaranteeOf(scan: Scan, span: Span): FullGuarantee {
  const guarantee = scan.fields(span, LAYOUTS.guarantee);
  return {
    collectionId: guarantee.bytes(1),
    signatures: guarantee.list(2),
    referenceBlockId: guarantee.bytes(3),
    signature: guarantee.bytes(4),
    signerIds: guarantee.list(5),
    signerIndices: guarantee.bytes(6),
    clusterChainId: guarantee.bytes(7),
  };
}

function sealOf(scan: Scan, span: Span): FullSeal {
  const seal = scan.fields(span, LAYOUTS.seal);
  const approvals = seal.list(7).map((of) => {
    const chunk = scan.fields(of, LAYOUTS.approvals);
    return { signatures: chunk.list(1), signerIds: chunk.list(2) };
  });
  return { blockId: seal.bytes(1), finalState: seal.bytes(5), resultId: seal.bytes(6), approvals };
}

function receiptOf(scan: Scan, span: Span): ReceiptMeta {
  const receipt = scan.fields(span, LAYOUTS.receipt);
  return {
    executorId: receipt.bytes(1),
    resultId: receipt.bytes(2),
    spocks: receipt.list(3),
    executorSignature: receipt.bytes(4),
  };
}

function headerOf(scan: Scan, span: Span): FullHeader {
  const header = scan.fields(span, LAYOUTS.header);
  return {
    id: header.bytes(1),
    parentId: header.bytes(2),
    height: header.number(3),
    timestamp: timeOf(scan, header.bytes(4)),
    payloadHash: header.bytes(5),
    view: header.number(6),
    parentVoterIds: header.list(7),
    parentVoterSigData: header.bytes(8),
    proposerId: header.bytes(9),
    chainId: header.bytes(11),
    parentVoterIndices: header.bytes(12),
    lastViewTC: header.has(13) ? timeoutOf(scan, header.bytes(13)) : undefined,
    parentView: header.number(14),
  };
}

function timeoutOf(scan: Scan, span: Span): TimeoutCertificate {
  const timeout = scan.fields(span, LAYOUTS.timeout);
  if (!timeout.has(3)) throw new WireError('a timeout certificate holds no quorum certificate');
  return {
    view: timeout.number(1),
    highQcViews: scan.views(timeout.list(2)),
    highestQc: certificateOf(scan, timeout.bytes(3)),
    signerIndices: timeout.bytes(4),
    sigData: timeout.bytes(5),
  };
}

function certificateOf(scan: Scan, span: Span): QuorumCertificate {
  const certificate = scan.fields(span, LAYOUTS.certificate);
  return {
    view: certificate.number(1),
    blockId: certificate.bytes(2),
    signerIndices: certificate.bytes(3),
    sigData: certificate.bytes(4),
  };
}

/** A cursor that enters messages by their place. */
class Scan {
  readonly reader: WireReader;
  #noted = 0;

  constructor(bytes: Uint8Array) {
    this.reader = new WireReader(bytes);
  }

  fields(message: Span, { last, repeated }: Layout): Fields {
    const { reader } = this;
    this.#enter(message);
    const fields = new Fields();
    while (reader.next()) {
      const { field, wireType } = reader;
      if (field > last || (wireType !== LENGTH_DELIMITED && wireType !== VARINT)) {
        reader.skip();
        continue;
      }
      this.#note();
      if (wireType === VARINT) {
        reader.varint();
        fields.setNumber(field, reader.high * TWO_POW_32 + (reader.low >>> 0));
      } else {
        const length = reader.length();
        const span = { start: reader.position, length };
        reader.position += length;
        if ((repeated & (1 << field)) !== 0) fields.addBytes(field, span);
        else fields.setBytes(field, span);
      }
    }
    return fields;
  }

  /** Views, packed. */
  views(packed: readonly Span[]): number[] {
    const views: number[] = [];
    for (const span of packed) {
      this.#enter(span);
      while (this.reader.position < this.reader.end) {
        this.#note();
        views.push(this.reader.safeInteger('view'));
      }
    }
    return views;
  }

  #enter({ start, length }: Span): void {
    this.reader.position = start;
    this.reader.end = start + length;
  }

  #note(): void {
    if (++this.#noted > MAX_NOTED_FIELDS) throw new WireError('a block has too many fields');
  }
}

/** What was found of one message, by field number. */
class Fields {
  readonly #bytes: Span[] = [];
  readonly #lists: Span[][] = [];
  readonly #numbers: number[] = [];

  setBytes(field: number, span: Span): void {
    if (this.#bytes[field] !== undefined)
      throw new WireError(`field ${field} of a block's part is there twice`);
    this.#bytes[field] = span;
  }

  addBytes(field: number, span: Span): void {
    (this.#lists[field] ??= []).push(span);
  }

  setNumber(field: number, value: number): void {
    if (this.#numbers[field] !== undefined)
      throw new WireError(`field ${field} of a block's part is there twice`);
    this.#numbers[field] = value;
  }

  has(field: number): boolean {
    return this.#bytes[field] !== undefined;
  }

  bytes(field: number): Span {
    return this.#bytes[field] ?? ABSENT;
  }

  list(field: number): readonly Span[] {
    return this.#lists[field] ?? NONE;
  }

  /** A height or view. */
  number(field: number): number {
    const value = this.signed(field);
    if (value < 0 || value > Number.MAX_SAFE_INTEGER)
      throw new WireError('a height or view is not a safe integer');
    return value;
  }

  signed(field: number): number {
    return this.#numbers[field] ?? 0;
  }
}
