import {
  decodeBlock,
  encodeBlock,
  FieldScan,
  type Identifier,
  identifierBytes,
  scanFullBlock,
  type Span,
  toIdentifier,
  WireWriter,
} from '../../flow/index.js';
import type { GeneratedBlock } from '../chain/ChainGenerator.js';
import type { ChangedCopy, ChangedHeaderField, Lie } from '../faults/faultRules.js';

/** Field of the header in `flow.entities.Block`. */
const HEADER_FIELD = 10;

/** The light form of a block, and a lie about it. */
export function lieInLightBlock(block: GeneratedBlock, lie?: Lie): Uint8Array {
  switch (lie?.fault) {
    case 'wrong_parent': {
      const decoded = decodeBlock(block.encoded);
      return encodeBlock({ ...decoded, parentId: garbled(decoded.parentId) });
    }
    case 'wrong_body':
      return withInventedGuarantee(block);
    case 'hidden_header':
      return lie.invents === true ? withInventedGuarantee(block) : block.encoded;
    case 'changed_copy':
      return withChangedCopy(block, lie.field ?? 'time');
    default:
      return block.encoded;
  }
}

/** A lie about the header in a block's full form. */
export function lieInFullBlock(full: Uint8Array, lie?: Lie): Uint8Array {
  switch (lie?.fault) {
    case 'changed_header':
      return withChangedHeader(full, lie.field ?? 'proposer');
    case 'hidden_header':
      return withoutHeader(full);
    default:
      return full;
  }
}

/** The last byte is part of a signature, a script or an id: any value is well-formed. */
export function garbledBytes(bytes: Uint8Array): Buffer {
  const copy = Buffer.from(bytes);
  const last = copy.length - 1;
  if (last >= 0) copy[last] = (copy[last] ?? 0) ^ 0xff;
  return copy;
}

export function garbled(id: Identifier): Identifier {
  return toIdentifier(garbledBytes(identifierBytes(id)));
}

function withInventedGuarantee(block: GeneratedBlock): Uint8Array {
  const decoded = decodeBlock(block.encoded);
  const [first, ...rest] = decoded.guarantees;
  const guarantee = first ?? {
    collectionId: block.id,
    referenceBlockId: identifierBytes(block.parentId),
    signature: Buffer.alloc(48, 1),
    signatures: [],
    signerIds: [],
    signerIndices: Buffer.alloc(1, 1),
    clusterChainId: Buffer.from('cluster-0', 'utf8'),
  };
  return encodeBlock({
    ...decoded,
    guarantees: [{ ...guarantee, collectionId: garbled(guarantee.collectionId) }, ...rest],
  });
}

/** A field that the header, or the guarantee itself, has as well; where there is no guarantee, the time. */
function withChangedCopy({ encoded }: GeneratedBlock, field: ChangedCopy): Uint8Array {
  const block = decodeBlock(encoded);
  const [guarantee, ...others] = block.guarantees;
  if (field === 'height') return encodeBlock({ ...block, height: block.height + 1 });
  if (field === 'signature') {
    const [signature = Buffer.alloc(0)] = block.signatures;
    return encodeBlock({ ...block, signatures: [garbledBytes(signature)] });
  }
  if (field === 'guarantee' && guarantee !== undefined) {
    const copy = { ...guarantee, signatures: [garbledBytes(guarantee.signature)] };
    return encodeBlock({ ...block, guarantees: [copy, ...others] });
  }
  const { nanos, seconds } = block.timestamp ?? { seconds: 0n, nanos: 0 };
  return encodeBlock({ ...block, timestamp: { seconds: seconds + 1n, nanos } });
}

function withChangedHeader(full: Uint8Array, field: ChangedHeaderField): Uint8Array {
  const changed = Buffer.from(full);
  const { header } = scanFullBlock(changed);
  if (header === undefined) return full;
  const spans: Readonly<Record<ChangedHeaderField, Span>> = {
    proposer: header.proposerId,
    payload_hash: header.payloadHash,
    id: header.id,
  };
  const { length, start } = spans[field];
  const last = start + length - 1;
  changed[last] = (changed[last] ?? 0) ^ 0xff;
  return changed;
}

function withoutHeader(full: Uint8Array): Uint8Array {
  const bytes = Buffer.from(full);
  const header = new FieldScan(bytes)
    .fields({ start: 0, length: bytes.length }, HEADER_FIELD, REPEATED_FIELDS)
    .span(HEADER_FIELD);
  const before = new WireWriter().element(
    HEADER_FIELD,
    bytes.subarray(header.start, header.start + header.length),
  );
  const end = header.start + header.length;
  return Buffer.concat([bytes.subarray(0, end - before.finish().length), bytes.subarray(end)]);
}

/** Guarantees, seals, signatures, receipts and results. */
const REPEATED_FIELDS = (1 << 5) | (1 << 6) | (1 << 7) | (1 << 8) | (1 << 9);
