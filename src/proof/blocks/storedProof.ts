import {
  IDENTIFIER_BYTES,
  LENGTH_DELIMITED,
  scanFullBlock,
  scanTimeoutCertificate,
  toIdentifier,
  VARINT,
  WireError,
  WireReader,
  WireWriter,
  type FullHeader,
  type Identifier,
  type Span,
  type TimeoutCertificate,
  type Timestamp,
} from '../../flow/index.js';
import { BlockHasher, payloadHash } from '../ids/BlockHasher.js';
import { hasParentView, headerFormOf, payloadFormOf, type BlockForm } from '../ids/forms.js';

const VERSION = 1;
/** How forms are stored. Numbers are never used again. */
const FORM_NUMBERS: Readonly<Record<BlockForm, number>> = {
  H1P1: 1,
  H3P1: 2,
  H5P1: 3,
  H5P7: 4,
  H5P8: 5,
  H8P8: 6,
};
const FORMS = new Map(Object.entries(FORM_NUMBERS).map(([form, number]) => [number, form as BlockForm]));
const FIELD = {
  form: 1,
  view: 2,
  parentView: 3,
  proposerId: 4,
  parentVoters: 5,
  lastViewTC: 6,
  roots: 7,
} as const;

const ABSENT: Span = { start: 0, length: 0 };

/** The header of a stored block. Bytes are views of one buffer of its own. */
export interface StoredHeader {
  readonly form: BlockForm;
  readonly chainId: string;
  readonly id: Identifier;
  readonly parentId: Identifier;
  readonly height: number;
  readonly timestamp: Timestamp;
  readonly payloadHash: Uint8Array;
  readonly view: number;
  /** Zero in forms before H5, whose headers do not have it. */
  readonly parentView: number;
  /** In H1 alone, where no indices are. */
  readonly parentVoterIds: readonly Uint8Array[];
  readonly parentVoterIndices: Uint8Array;
  readonly parentVoterSigData: Uint8Array;
  readonly proposerId: Uint8Array;
  /** `flow.entities.TimeoutCertificate`, where the view before this one timed out. */
  readonly lastViewTC: Uint8Array | undefined;
  /** Empty before P7. */
  readonly protocolStateId: Uint8Array;
}

/** `roots`: those of the guarantees, seals, receipts and results, and the protocol state's id, 32 bytes each. */
export function encodeProof(form: BlockForm, header: FullHeader, bytes: Buffer, roots: Buffer): Buffer {
  const view = ({ start, length }: Span): Buffer => bytes.subarray(start, start + length);
  const voters =
    form === 'H1P1' ? Buffer.concat(header.parentVoterIds.map(view)) : view(header.parentVoterIndices);
  const hasView = hasParentView(headerFormOf(form));
  const writer = new WireWriter()
    .number(FIELD.form, FORM_NUMBERS[form])
    .number(FIELD.view, header.view)
    .number(FIELD.parentView, hasView ? header.parentView : 0)
    .bytes(FIELD.proposerId, view(header.proposerId))
    .bytes(FIELD.parentVoters, voters);
  if (hasView && header.lastViewTC !== undefined) {
    writer.element(FIELD.lastViewTC, encodeTimeout(header.lastViewTC, view));
  }
  writer.bytes(FIELD.roots, roots.subarray(IDENTIFIER_BYTES, rootsBytes(form)));
  return Buffer.concat([Buffer.of(VERSION), writer.finish()]);
}

/**
 * Reads the header of a stored block, from the block in its light form and its proof. It is not checked that it hashes to
 * the block's id; the payload hash is computed, as it is not stored. Give one hasher to many calls.
 *
 * Expected errors: `WireError`.
 */
export function readHeader(
  encodedLightBlock: Uint8Array,
  proof: Uint8Array,
  chainId: string,
  hasher = new BlockHasher(),
): StoredHeader {
  return openStored(encodedLightBlock, proof, chainId, hasher).stored;
}

/** The same, or `undefined` where the block and its proof do not hash to the block's id. */
export function checkStoredProof(
  encodedLightBlock: Uint8Array,
  proof: Uint8Array,
  chainId: string,
  hasher = new BlockHasher(),
): StoredHeader | undefined {
  try {
    const { header, stored } = openStored(encodedLightBlock, proof, chainId, hasher);
    return hasher.headerId(headerFormOf(stored.form), header) === stored.id ? stored : undefined;
  } catch (error) {
    if (error instanceof WireError) return undefined;
    throw error;
  }
}

function rootsBytes(form: BlockForm): number {
  return (form.endsWith('P1') ? 4 : 5) * IDENTIFIER_BYTES;
}

function encodeTimeout(timeout: TimeoutCertificate, view: (span: Span) => Buffer): Buffer {
  const { highestQc, highQcViews } = timeout;
  const packed = new WireWriter();
  for (const each of highQcViews) packed.packed(each);
  const certificate = new WireWriter()
    .number(1, highestQc.view)
    .bytes(2, view(highestQc.blockId))
    .bytes(3, view(highestQc.signerIndices))
    .bytes(4, view(highestQc.sigData))
    .finish();
  return new WireWriter()
    .number(1, timeout.view)
    .bytes(2, packed.finish())
    .element(3, certificate)
    .bytes(4, view(timeout.signerIndices))
    .bytes(5, view(timeout.sigData))
    .finish();
}

/** The header as the hasher wants it, its spans in what the hasher has loaded, and as readers do. */
function openStored(
  light: Uint8Array,
  proof: Uint8Array,
  chainId: string,
  hasher: BlockHasher,
): { readonly header: FullHeader; readonly stored: StoredHeader } {
  const chain = Buffer.from(chainId);
  const bytes = Buffer.concat([light, proof, chain, Buffer.alloc(IDENTIFIER_BYTES)]);
  const proofEnd = light.length + proof.length;
  const hashStart = bytes.length - IDENTIFIER_BYTES;
  const fields = proofFields(bytes, light.length, proofEnd);
  const block = scanFullBlock(bytes.subarray(0, light.length));
  const { form } = fields;
  const [parentVoterSigData = ABSENT] = block.signatures;

  hasher.load(bytes);
  const roots = Buffer.allocUnsafe(rootsBytes(form));
  const ids = hasher.guaranteeIds(payloadFormOf(form), block.guarantees);
  if (!hasher.root(ids, roots, 0)) throw new WireError('a stored block has the same guarantee twice');
  bytes.copy(roots, IDENTIFIER_BYTES, fields.roots.start, fields.roots.start + fields.roots.length);
  bytes.write(payloadHash(roots), hashStart, 'latin1');
  // The hash was not known when the rest was loaded.
  hasher.load(bytes);

  const view = ({ start, length }: Span): Buffer => bytes.subarray(start, start + length);
  const parentVoterIds: Span[] = [];
  if (form === 'H1P1') {
    const { start, length } = fields.parentVoters;
    for (let at = start; at < start + length; at += IDENTIFIER_BYTES) {
      parentVoterIds.push({ start: at, length: IDENTIFIER_BYTES });
    }
  }
  const parentVoterIndices = form === 'H1P1' ? ABSENT : fields.parentVoters;
  const { id, parentId, height, timestamp } = block;
  const header: FullHeader = {
    ...{ id, parentId, height, timestamp, parentVoterIds, parentVoterIndices, parentVoterSigData },
    ...{ view: fields.view, parentView: fields.parentView, proposerId: fields.proposerId },
    payloadHash: { start: hashStart, length: IDENTIFIER_BYTES },
    chainId: { start: proofEnd, length: chain.length },
    lastViewTC: fields.lastViewTC && scanTimeoutCertificate(bytes, fields.lastViewTC),
  };
  const stored: StoredHeader = {
    ...{ form, chainId, height, view: fields.view, parentView: fields.parentView },
    id: toIdentifier(view(id)),
    parentId: toIdentifier(view(parentId)),
    timestamp: { seconds: BigInt(timestamp.seconds), nanos: timestamp.nanos },
    payloadHash: view(header.payloadHash),
    parentVoterIds: parentVoterIds.map(view),
    parentVoterIndices: view(parentVoterIndices),
    parentVoterSigData: view(parentVoterSigData),
    proposerId: view(fields.proposerId),
    lastViewTC: fields.lastViewTC && view(fields.lastViewTC),
    protocolStateId: roots.subarray(4 * IDENTIFIER_BYTES),
  };
  return { header, stored };
}

/** The fields of a proof at `start … end`. */
function proofFields(
  bytes: Buffer,
  start: number,
  end: number,
): {
  readonly form: BlockForm;
  readonly view: number;
  readonly parentView: number;
  readonly proposerId: Span;
  readonly parentVoters: Span;
  readonly lastViewTC: Span | undefined;
  readonly roots: Span;
} {
  if (start === end || bytes[start] !== VERSION) throw new WireError('a proof has an unknown version');
  const reader = new WireReader(bytes);
  reader.position = start + 1;
  reader.end = end;
  const numbers: number[] = [];
  const spans: Span[] = [];
  while (reader.next()) {
    if (reader.wireType === VARINT && reader.field <= FIELD.parentView) {
      numbers[reader.field] = reader.safeInteger('view');
    } else if (reader.wireType === LENGTH_DELIMITED && reader.field <= FIELD.roots) {
      const { field } = reader;
      const length = reader.length();
      spans[field] = { start: reader.position, length };
      reader.position += length;
    } else {
      throw new WireError('a proof has an unknown field');
    }
  }
  const form = FORMS.get(numbers[FIELD.form] ?? 0);
  const roots = spans[FIELD.roots] ?? ABSENT;
  const parentVoters = spans[FIELD.parentVoters] ?? ABSENT;
  if (form === undefined) throw new WireError('a proof has an unknown form');
  if (roots.length !== rootsBytes(form) - IDENTIFIER_BYTES) throw new WireError('a proof has not its roots');
  if (form === 'H1P1' && parentVoters.length % IDENTIFIER_BYTES !== 0)
    throw new WireError('a voter id is cut short');
  return {
    form,
    view: numbers[FIELD.view] ?? 0,
    parentView: numbers[FIELD.parentView] ?? 0,
    proposerId: spans[FIELD.proposerId] ?? ABSENT,
    parentVoters,
    lastViewTC: spans[FIELD.lastViewTC],
    roots,
  };
}
