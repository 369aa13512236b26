import { ABSENT_SPAN, FieldScan, IDENTIFIER_BYTES, scanFullBlock } from '../../flow/index.js';
import { timeoutOf, toIdentifier, WireError, WireWriter } from '../../flow/index.js';
import type { FullBlock, FullHeader, Span, TimeoutCertificate } from '../../flow/index.js';
import { BlockHasher, payloadHash } from '../ids/BlockHasher.js';
import { hasParentView, headerFormOf, payloadFormOf, type BlockForm } from '../ids/forms.js';

const VERSION = 1;
/** A form is stored as its index here, counted from 1: append only. */
const STORED_FORMS: readonly BlockForm[] = ['H1P1', 'H3P1', 'H5P1', 'H5P7', 'H5P8', 'H8P8'];
const FIELD = {
  form: 1,
  view: 2,
  parentView: 3,
  proposerId: 4,
  parentVoters: 5,
  lastViewTC: 6,
  roots: 7,
} as const;

/** A proven block as an index stores it. Pass one hasher to many calls. */
type StoredBlock = [encodedLightBlock: Uint8Array, proof: Uint8Array, chainId: string, hasher?: BlockHasher];

/** The header of a stored block. Bytes are views of one buffer of its own. */
export type StoredHeader = Readonly<ReturnType<typeof opened>['stored']>;

/** `roots`: of the guarantees, seals, receipts and results, and the protocol state's id, 32 bytes each. */
export function encodeProof(form: BlockForm, header: FullHeader, bytes: Buffer, roots: Buffer): Buffer {
  const view = ({ start, length }: Span): Buffer => bytes.subarray(start, start + length);
  const voters =
    form === 'H1P1' ? Buffer.concat(header.parentVoterIds.map(view)) : view(header.parentVoterIndices);
  const hasView = hasParentView(headerFormOf(form));
  const writer = new WireWriter()
    .packed(VERSION)
    .number(FIELD.form, STORED_FORMS.indexOf(form) + 1)
    .number(FIELD.view, header.view)
    .number(FIELD.parentView, hasView ? header.parentView : 0)
    .bytes(FIELD.proposerId, view(header.proposerId))
    .bytes(FIELD.parentVoters, voters);
  if (hasView && header.lastViewTC !== undefined) {
    writer.element(FIELD.lastViewTC, encodeTimeout(header.lastViewTC, view));
  }
  return writer.bytes(FIELD.roots, roots.subarray(IDENTIFIER_BYTES, rootsBytes(form))).finish();
}

/**
 * Reads the header of a stored block, from its light form and its proof, without checking that it hashes to the block's id.
 * The payload hash is computed, as it is not stored. Expected errors: `WireError`.
 */
export function readHeader(...of: StoredBlock): StoredHeader {
  return opened(...of).stored;
}

/** The header, or `undefined` if the block and its proof do not hash to the block's id. */
export function checkStoredProof(...of: StoredBlock): StoredHeader | undefined {
  try {
    const { hasher, header, stored } = opened(...of);
    return hasher.headerId(headerFormOf(stored.form), header) === stored.id ? stored : undefined;
  } catch (error) {
    if (error instanceof WireError) return undefined;
    throw error;
  }
}

export type BlockPreimages = Readonly<ReturnType<typeof preimagesOf>>;

/**
 * The preimages of a stored block's hashes, each in its own memory, for callers that hash them themselves. Expected errors:
 * `WireError`.
 */
export function preimagesOf(...of: StoredBlock) {
  const { hasher, header, stored, block, roots } = opened(...of);
  hasher.headerId(headerFormOf(stored.form), header);
  const form = payloadFormOf(stored.form);
  return {
    stored,
    /** RLP whose SHA3-256 is the block's id. */
    header: hasher.preimage(),
    /** For each guarantee RLP whose SHA3-256 is its id; before P8 the id itself, which is that of the collection. */
    guarantees: block.guarantees.map((guarantee) => {
      const [id = ''] = hasher.guaranteeIds(form, [guarantee]);
      return form === 'P8' ? hasher.preimage() : Buffer.from(id, 'latin1');
    }),
    /** SHA3-256 of these is the payload hash: the first 32 bytes are the guarantees' Merkle root. */
    roots,
  };
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

function opened(...of: StoredBlock) {
  const found = openStored(...of);
  if (found === undefined) throw new WireError('a proof has an unknown version or form');
  return found;
}

/**
 * The header in two forms: as the hasher takes it, which has it loaded, and as readers do. Spans are places in `bytes`.
 * `undefined`: a later version of the program made the proof.
 */
export function openStored(...[light, proof, chainId, hasher = new BlockHasher()]: StoredBlock) {
  if (proof[0] !== VERSION) return undefined;
  const chain = Buffer.from(chainId);
  const bytes = Buffer.concat([light, proof, chain, Buffer.alloc(IDENTIFIER_BYTES)]);
  const chainStart = light.length + proof.length;
  const hashStart = chainStart + chain.length;
  const view = ({ start, length }: Span): Uint8Array => bytes.subarray(start, start + length);
  const block: FullBlock = { ...scanFullBlock(bytes.subarray(0, light.length)), bytes };
  const scan = new FieldScan(bytes);
  const fields = scan.fields({ start: light.length + 1, length: proof.length - 1 }, FIELD.roots);

  const form = STORED_FORMS[fields.number(FIELD.form) - 1];
  if (form === undefined) return undefined;
  const otherRoots = view(fields.span(FIELD.roots));
  const roots = Buffer.alloc(rootsBytes(form));
  if (otherRoots.length !== roots.length - IDENTIFIER_BYTES) throw new WireError('a proof lacks its roots');
  roots.set(otherRoots, IDENTIFIER_BYTES);
  hasher.load(bytes);
  const guarantees = hasher.guaranteeIds(payloadFormOf(form), block.guarantees);
  if (!hasher.root(guarantees, roots, 0)) throw new WireError('a stored block has a guarantee twice');
  bytes.write(payloadHash(roots), hashStart, 'latin1');
  // The source again, now that the hash is in it.
  hasher.load(bytes);

  const voters = fields.span(FIELD.parentVoters);
  const timeout = fields.has(FIELD.lastViewTC) ? fields.span(FIELD.lastViewTC) : undefined;
  const header: FullHeader = {
    id: block.id,
    parentId: block.parentId,
    height: block.height,
    timestamp: block.timestamp,
    payloadHash: { start: hashStart, length: IDENTIFIER_BYTES },
    view: fields.number(FIELD.view),
    parentVoterIds: form === 'H1P1' ? idsIn(voters) : [],
    parentVoterIndices: form === 'H1P1' ? ABSENT_SPAN : voters,
    parentVoterSigData: block.signatures[0] ?? ABSENT_SPAN,
    proposerId: fields.span(FIELD.proposerId),
    chainId: { start: chainStart, length: chain.length },
    lastViewTC: timeout && timeoutOf(new FieldScan(bytes), timeout),
    parentView: fields.number(FIELD.parentView),
  };
  const stored = {
    form,
    chainId,
    height: header.height,
    view: header.view,
    /** Zero in forms before H5, whose headers do not have it. */
    parentView: header.parentView,
    id: toIdentifier(view(header.id)),
    parentId: toIdentifier(view(header.parentId)),
    timestamp: { seconds: BigInt(header.timestamp.seconds), nanos: header.timestamp.nanos },
    payloadHash: view(header.payloadHash),
    /** In H1 only, which has no indices. */
    parentVoterIds: header.parentVoterIds.map(view),
    parentVoterIndices: view(header.parentVoterIndices),
    parentVoterSigData: view(header.parentVoterSigData),
    proposerId: view(header.proposerId),
    /** `flow.entities.TimeoutCertificate`, where the view before this one timed out. */
    lastViewTC: timeout && view(timeout),
    /** Empty before P7. */
    protocolStateId: roots.subarray(4 * IDENTIFIER_BYTES) as Uint8Array,
  };
  return { hasher, header, stored, block, roots };
}

/** Consecutive ids. */
function idsIn({ start, length }: Span): Span[] {
  return Array.from({ length: length / IDENTIFIER_BYTES }, (_, index) => ({
    start: start + index * IDENTIFIER_BYTES,
    length: IDENTIFIER_BYTES,
  }));
}
