import { decodeBlock, decodeBlockMessage, decodeExecutionResult, encodeBlock } from '../../flow/index.js';
import { IDENTIFIER_BYTES, identifierBytes, scanFullBlock, toIdentifier } from '../../flow/index.js';
import type { FinalizedBlock, FullBlock, FullHeader, Identifier, Span } from '../../flow/index.js';
import { executionResultId } from '../committee/serviceEvents.js';
import { BlockHasher, NANOS_PER_MILLI, payloadHash } from '../ids/BlockHasher.js';
import { headerFormOf, headerForms, payloadFormOf, payloadFormsOf } from '../ids/forms.js';
import type { BlockForm, HeaderForm, PayloadForm } from '../ids/forms.js';
import { encodeProof, openStored } from './storedProof.js';

/**
 * Which results a payload holds is found by trying its receipts, until this many ids were hashed at some 3 µs each: all
 * choices of 6 among 12. No recorded block needed more than one choice.
 */
const MAX_TRIED_RESULTS = 8192;

/**
 * What is wrong with a block: `id`, its header hashes to another id; `chain`, it belongs to another network; `copy`, the copies
 * of a field differ; `payload`, it does not hash to what the header says; `ambiguous`, another block hashes to the same id,
 * because an id is in a list twice, or the time has more digits than are hashed.
 */
export const invalidBlockReasons = ['id', 'chain', 'copy', 'payload', 'ambiguous'] as const;

export type Proving =
  | {
      readonly kind: 'proven';
      readonly form: BlockForm;
      readonly block: FinalizedBlock;
      /** The parts of a block that the id covers beyond its light form: for `checkStoredProof` and `readHeader`. */
      readonly proof: Uint8Array;
      /** The blocks whose seals are in its payload; `undefined`: it came without its payload. */
      readonly sealedIds: readonly Identifier[] | undefined;
    }
  /** The node lied. `detail` is a part of a sentence, for people. */
  | {
      readonly kind: 'refused';
      readonly reason: (typeof invalidBlockReasons)[number];
      readonly detail: string;
    }
  /** There is a header, but no known form of it hashes to the id; or none with a payload hash: nodes of old sporks send such. */
  | { readonly kind: 'unknown_form' | 'without_header'; readonly block: FinalizedBlock };

type Refusal = Extract<Proving, { kind: 'refused' }>;

/**
 * Proves blocks in full form: that their header hashes to their id, and everything in them to the header. Tries the form that
 * matched last, then the others, newest first.
 */
export class BlockProver {
  readonly #chainId: string;
  readonly #hasher = new BlockHasher();
  /** The roots of guarantees, seals, receipts and results, and the protocol state's id. */
  readonly #roots = Buffer.alloc(5 * IDENTIFIER_BYTES);
  #form: BlockForm = 'H8P8';

  constructor({ chainId }: { readonly chainId: string }) {
    this.#chainId = chainId;
  }

  /** Takes a `flow.entities.Block`. Expected errors: `WireError`. */
  prove(message: Uint8Array): Proving {
    const block = scanFullBlock(message);
    const { header } = block;
    const light = decodeBlockMessage(message);
    if (!header?.payloadHash.length) return { kind: 'without_header', block: light };
    this.#hasher.load(block.bytes);
    const headerForm = this.#headerForm(header, light.id, block.bytes);
    if (headerForm === undefined) return { kind: 'unknown_form', block: light };
    const refusal = this.#refusal(headerForm, header, block);
    if (refusal !== undefined) return refusal;
    const payloadForm = this.#payloadForm(headerForm, block, header);
    if (typeof payloadForm !== 'string') return payloadForm;
    this.#form = `${headerForm}${payloadForm}` as BlockForm;
    const sealedIds = block.seals.map(({ blockId }) => toIdentifier(block.bytes.subarray(...range(blockId))));
    return provenAs(this.#form, block, header, light, this.#roots, sealedIds);
  }

  /**
   * The same for a block as an index has it: in its light form, with the proof that `prove` made. Both are returned as
   * `prove` makes them, without anything added that no hash covers. Expected errors: `WireError`.
   */
  proveStored(message: Uint8Array, proof: Uint8Array): Proving {
    const light = decodeBlockMessage(message);
    if (proof.length === 0) return { kind: 'without_header', block: light };
    const opened = openStored(light.encoded, proof, this.#chainId, this.#hasher);
    if (opened === undefined) return { kind: 'unknown_form', block: light };
    const { block, header, roots } = opened;
    const { form } = opened.stored;
    if (this.#hasher.headerId(headerFormOf(form), header) !== light.id)
      return refused('id', 'it does not hash to its id with the proof that came with it');
    const refusal = this.#refusal(headerFormOf(form), header, block);
    return refusal ?? provenAs(form, block, header, light, roots, undefined);
  }

  /** The form in which the header hashes to the block's id, or to the id in the header itself. */
  #headerForm(header: FullHeader, id: Identifier, bytes: Buffer): HeaderForm | undefined {
    const fits = (form: HeaderForm): boolean => {
      const hashed = this.#hasher.headerId(form, header);
      return hashed === id || hashed === bytes.toString('hex', ...range(header.id));
    };
    return [headerFormOf(this.#form), ...headerForms].find(fits);
  }

  /** What is wrong with a header of known form, or with the copies of its fields. */
  #refusal(form: HeaderForm, header: FullHeader, block: FullBlock): Refusal | undefined {
    const { bytes } = block;
    const same = (a: Span, b: Span): boolean => sameBytes(bytes, a, b);
    if (header.id.length > 0 && !same(header.id, block.id))
      return refused('id', 'its id is not the one of its header');
    if (bytes.toString('latin1', ...range(header.chainId)) !== this.#chainId) {
      return refused('chain', `it is not of the chain ${this.#chainId}`);
    }
    const { timestamp } = header;
    if (!same(block.parentId, header.parentId))
      return refused('copy', 'its parent is not the one of its header');
    if (block.height !== header.height) return refused('copy', 'its height is not the one of its header');
    if (block.timestamp.seconds !== timestamp.seconds || block.timestamp.nanos !== timestamp.nanos) {
      return refused('copy', 'its time is not the one of its header');
    }
    if (!block.signatures.every((signature) => same(signature, header.parentVoterSigData))) {
      return refused('copy', 'its signature is not the one of its header');
    }
    if (form === 'H8' && timestamp.nanos % NANOS_PER_MILLI !== 0)
      return refused('ambiguous', 'its time has parts of a millisecond, which its id does not cover');
    return undefined;
  }

  /** The form in which the payload hashes to what the header says; leaves its roots in `#roots`. */
  #payloadForm(headerForm: HeaderForm, block: FullBlock, header: FullHeader): PayloadForm | Refusal {
    const last = payloadFormOf(this.#form);
    const forms = payloadFormsOf[headerForm];
    const wanted = this.#hasher.sourceText(header.payloadHash);
    let repeated: PayloadForm | undefined;
    for (const form of forms.includes(last) ? [last, ...forms.filter((other) => other !== last)] : forms) {
      if (form !== 'P1') {
        if (block.protocolStateId.length !== IDENTIFIER_BYTES) continue;
        block.bytes.copy(this.#roots, 4 * IDENTIFIER_BYTES, ...range(block.protocolStateId));
      }
      const hasRoots =
        this.#root(this.#hasher.guaranteeIds(form, block.guarantees), 0) &&
        this.#root(this.#hasher.sealIds(block.seals), 1) &&
        this.#root(this.#hasher.receiptIds(form, block.receipts), 2);
      if (!hasRoots) repeated ??= form;
      else if (this.#resultsFit(form, block, wanted)) return form;
    }
    return repeated === undefined
      ? refused('payload', 'its payload does not hash to what its header says')
      : refused('ambiguous', 'a guarantee, seal or receipt is in its payload twice');
  }

  #root(ids: readonly string[], place: number): boolean {
    return this.#hasher.root(ids, this.#roots, place * IDENTIFIER_BYTES);
  }

  /**
   * Finds the ids of the results: each has a receipt in the same payload, while a receipt may be for a result in an earlier
   * block. So it tries the receipts' results, as many as there are results, those of the last receipts first, as receipts are
   * in the order of heights; only if none match are the results themselves hashed.
   */
  #resultsFit(form: PayloadForm, { bytes, receipts, results }: FullBlock, wanted: string): boolean {
    const roots = this.#roots.subarray(0, (form === 'P1' ? 4 : 5) * IDENTIFIER_BYTES);
    const fit = (ids: readonly string[]): boolean => this.#root(ids, 3) && payloadHash(roots) === wanted;
    const candidates = [...new Set(receipts.map(({ resultId }) => this.#hasher.sourceText(resultId)))];
    const limit = Math.ceil(MAX_TRIED_RESULTS / (results.length + 1));
    for (const ids of selections(candidates, results.length, limit)) if (fit(ids)) return true;
    const left = new Set(receipts.map(({ resultId }) => toIdentifier(bytes.subarray(...range(resultId)))));
    const ids: string[] = [];
    for (const result of results) {
      const id = executionResultId(decodeExecutionResult(bytes.subarray(...range(result))), left);
      if (id === undefined || !left.delete(id)) return false;
      ids.push(identifierBytes(id).toString('latin1'));
    }
    return fit(ids);
  }
}

/** Every choice of `count` items in their order, at most `limit`, those of the last items first. */
function* selections<T>(items: readonly T[], count: number, limit: number): Generator<readonly T[]> {
  const spare = items.length - count;
  const places = Array.from({ length: count }, (_, index) => spare + index);
  for (let made = 0; made < limit && spare >= 0; made++) {
    yield places.map((place) => items[place] as T);
    let moved = count - 1;
    while (moved >= 0 && places[moved] === (places[moved - 1] ?? -1) + 1) moved--;
    if (moved < 0) return;
    (places[moved] as number)--;
    while (++moved < count) places[moved] = spare + moved;
  }
}

/**
 * The canonical form of a block that hashes to its id in this form, unless the copies in its guarantees differ: the light form
 * with each copy once, and without what the id does not cover. So a block is always the same bytes, whatever a node left out
 * or added; today's nodes do neither. Before P8 a guarantee stays as it was reported.
 */
function provenAs(
  form: BlockForm,
  block: FullBlock,
  header: FullHeader,
  light: FinalizedBlock,
  roots: Buffer,
  sealedIds: readonly Identifier[] | undefined,
): Proving {
  const { bytes, guarantees } = block;
  const payloadForm = payloadFormOf(form);
  // If the id covers a guarantee's signature, its copy must be equal; in earlier forms only if both are present.
  const isSame = guarantees.every(
    ({ signature, signatures }) =>
      (payloadForm !== 'P8' && signature.length === 0) ||
      signatures.every((copy) => sameBytes(bytes, copy, signature)),
  );
  if (!isSame) return refused('copy', 'a guarantee has two signatures that differ');
  const proof = encodeProof(form, header, bytes, roots);
  const isWhole = guarantees.every((each) => each.signatures.length === 1 && each.signerIds.length === 0);
  if (block.signatures.length === 1 && (payloadForm !== 'P8' || isWhole))
    return { kind: 'proven', form, block: light, proof, sealedIds };
  const decoded = decodeBlock(light.encoded);
  const encoded = encodeBlock({
    ...decoded,
    signatures: [bytes.subarray(...range(header.parentVoterSigData))],
    guarantees:
      payloadForm === 'P8'
        ? decoded.guarantees.map((each) => ({ ...each, signatures: [each.signature], signerIds: [] }))
        : decoded.guarantees,
  });
  return { kind: 'proven', form, block: { ...light, encoded }, proof, sealedIds };
}

function refused(reason: Refusal['reason'], detail: string): Refusal {
  return { kind: 'refused', reason, detail };
}

function range({ start, length }: Span): [start: number, end: number] {
  return [start, start + length];
}

function sameBytes(bytes: Buffer, a: Span, b: Span): boolean {
  return bytes.compare(bytes, ...range(a), ...range(b)) === 0;
}
