import { hash } from 'node:crypto';
import { ID_ITEM_HEADER, IDENTIFIER_BYTES, RlpWriter } from '../../flow/index.js';
import type { FullGuarantee, FullHeader, FullSeal, Identifier } from '../../flow/index.js';
import type { ReceiptMeta, Span, TimeoutCertificate } from '../../flow/index.js';
import { hasParentView, type HeaderForm, type PayloadForm } from './forms.js';
import { MerkleTrie } from './MerkleTrie.js';

/** An item of RLP takes at most three times its bytes on the wire: of empty messages, lists in lists remain. */
const RLP_PER_WIRE_BYTE = 3;
/** Fixed fields that are absent on the wire, numbers, and headers of lists, generously. */
const RLP_FIXED_BYTES = 1024;

const NO_TIMEOUT = ID_ITEM_HEADER + '\0'.repeat(IDENTIFIER_BYTES);
const MILLIS_PER_SECOND = 1000n;
export const NANOS_PER_MILLI = 1_000_000;
const NANOS_PER_SECOND = 1_000_000_000n;

/**
 * The hashes of a block: ids of its header and of the items of its payload, and the Merkle roots over these. An instance
 * works on one block at a time, which `load` gives it, and may be used for any number of them. Ids and hashes are texts
 * of a character per byte, the fastest form to collect them in.
 */
export class BlockHasher {
  readonly #rlp = new RlpWriter(RLP_FIXED_BYTES);
  /** Created for the first root: it reserves address space. */
  #trie: MerkleTrie | undefined;
  #ids = Buffer.alloc(0);

  /** Spans given to the other methods are places in these bytes, which are copied. */
  load(bytes: Uint8Array): void {
    this.#rlp.setSource(bytes);
    this.#rlp.reserve(RLP_PER_WIRE_BYTE * bytes.length + RLP_FIXED_BYTES);
  }

  /** The id of the block with this header. H8 drops what is below a millisecond. */
  headerId(form: HeaderForm, header: FullHeader): Identifier {
    const hasView = hasParentView(form);
    const timeout = hasView ? this.#timeout(form, header.lastViewTC) : '';
    const end = this.#begin();
    const rlp = this.#rlp;
    rlp.characters(timeout);
    this.#bytes(header.proposerId);
    this.#bytes(header.parentVoterSigData);
    if (form === 'H1') this.#list(header.parentVoterIds);
    else this.#bytes(header.parentVoterIndices);
    if (hasView) rlp.safeInteger(header.parentView);
    rlp.safeInteger(header.view);
    this.#time(form, header.timestamp);
    this.#bytes(header.payloadHash);
    rlp.safeInteger(header.height);
    this.#bytes(header.parentId);
    this.#bytes(header.chainId);
    rlp.list(end);
    return this.#hash('hex') as Identifier;
  }

  guaranteeIds(form: PayloadForm, guarantees: readonly FullGuarantee[]): string[] {
    if (form !== 'P8') return guarantees.map(({ collectionId }) => this.sourceText(collectionId));
    return guarantees.map((guarantee) => {
      const end = this.#begin();
      this.#bytes(guarantee.signature);
      this.#bytes(guarantee.signerIndices);
      this.#bytes(guarantee.clusterChainId);
      this.#bytes(guarantee.referenceBlockId);
      this.#bytes(guarantee.collectionId);
      return this.#hashList(end);
    });
  }

  sealIds(seals: readonly FullSeal[]): string[] {
    return seals.map(({ blockId, resultId, finalState, approvals }) => {
      const end = this.#begin();
      for (const { signatures, signerIds } of approvals.toReversed()) {
        const chunkEnd = this.#rlp.position;
        this.#list(signerIds);
        this.#list(signatures);
        this.#rlp.list(chunkEnd);
      }
      this.#rlp.list(end);
      this.#bytes(finalState);
      this.#bytes(resultId);
      this.#bytes(blockId);
      return this.#hashList(end);
    });
  }

  /** Since P8 the executor's signature counts too: as the second item of a list around the others. */
  receiptIds(form: PayloadForm, receipts: readonly ReceiptMeta[]): string[] {
    return receipts.map(({ executorId, executorSignature, resultId, spocks }) => {
      const end = this.#begin();
      if (form === 'P8') this.#bytes(executorSignature);
      const bodyEnd = this.#rlp.position;
      this.#list(spocks);
      this.#bytes(resultId);
      this.#bytes(executorId);
      if (form === 'P8') this.#rlp.list(bodyEnd);
      return this.#hashList(end);
    });
  }

  /** The last hashed bytes, in memory of their own. */
  preimage(): Buffer {
    return Buffer.from(this.#rlp.written(0, this.#rlp.writtenBytes));
  }

  /** Bytes of the source, one character each. */
  sourceText({ start, length }: Span): string {
    return this.#rlp.buffer.toString('latin1', start, start + length);
  }

  /**
   * Writes the Merkle root over ids to `target`. False if there is none: an id is there twice, or is not 32 bytes.
   */
  root(ids: readonly string[], target: Buffer, offset: number): boolean {
    const size = ids.length * IDENTIFIER_BYTES;
    if (size > this.#ids.length) this.#ids = Buffer.alloc(2 * size);
    const text = ids.join('');
    if (text.length !== size || ids.some(({ length }) => length !== IDENTIFIER_BYTES)) return false;
    this.#ids.write(text, 0, 'latin1');
    return (this.#trie ??= new MerkleTrie()).root(this.#ids, ids.length, target, offset);
  }

  /** The item of a header that stands for its timeout certificate. */
  #timeout(form: HeaderForm, timeout: TimeoutCertificate | undefined): string {
    if (timeout === undefined) return NO_TIMEOUT;
    const rlp = this.#rlp;
    const { highestQc, highQcViews } = timeout;
    const writeCertificate = (): void => {
      const end = rlp.position;
      this.#bytes(highestQc.sigData);
      this.#bytes(highestQc.signerIndices);
      this.#bytes(highestQc.blockId);
      rlp.safeInteger(highestQc.view);
      rlp.list(end);
    };
    let certificateItem = '';
    if (form === 'H5') {
      this.#begin();
      writeCertificate();
      certificateItem = ID_ITEM_HEADER + this.#hash('binary');
    }
    const end = this.#begin();
    this.#bytes(timeout.sigData);
    this.#bytes(timeout.signerIndices);
    if (form === 'H5') rlp.characters(certificateItem);
    else writeCertificate();
    const viewsEnd = rlp.position;
    for (const view of highQcViews.toReversed()) rlp.safeInteger(view);
    rlp.list(viewsEnd);
    rlp.safeInteger(timeout.view);
    return ID_ITEM_HEADER + this.#hashList(end);
  }

  #time(form: HeaderForm, { seconds, nanos }: FullHeader['timestamp']): void {
    const time =
      form === 'H8'
        ? BigInt(seconds) * MILLIS_PER_SECOND + BigInt(Math.floor(nanos / NANOS_PER_MILLI))
        : BigInt(seconds) * NANOS_PER_SECOND + BigInt(nanos);
    // Times before 1970 wrap around, as in Flow's conversion to unsigned.
    this.#rlp.integer(Number(BigInt.asIntN(32, time)), Number(BigInt.asIntN(32, time >> 32n)));
  }

  #bytes({ start, length }: Span): void {
    this.#rlp.bytes(start, length);
  }

  #list(items: readonly Span[]): void {
    const end = this.#rlp.position;
    for (let index = items.length - 1; index >= 0; index--) this.#bytes(items[index] as Span);
    this.#rlp.list(end);
  }

  /** Discards what was written; returns the end of the list to be written next. */
  #begin(): number {
    this.#rlp.clear();
    return this.#rlp.position;
  }

  #hashList(end: number): string {
    this.#rlp.list(end);
    return this.#hash('binary');
  }

  #hash(encoding: 'hex' | 'binary'): string {
    return hash('sha3-256', this.#rlp.written(0, this.#rlp.writtenBytes), encoding);
  }
}

/** The hash over the roots of a payload, and from P7 on its protocol state: `roots` holds them one after the other. */
export function payloadHash(roots: Uint8Array): string {
  return hash('sha3-256', roots, 'binary');
}
