import { identifierBytes, scanFullBlock, toIdentifier, WireWriter } from '../../flow/index.js';
import type { Identifier } from '../../flow/index.js';
import { BlockHasher, payloadHash } from '../../proof/index.js';
import type { Fork } from './BlockIds.js';

const ID_BYTES = 32;
/** Guarantees, seals, receipts, results, and the protocol state's id. */
const ROOTS = 5;

/** What a hashed block is made of besides its place in the chain. */
export interface HashedContent {
  /** `flow.entities.CollectionGuarantee` each. */
  readonly guarantees: readonly Uint8Array[];
  readonly seals: readonly Uint8Array[];
  /** `flow.entities.ExecutionReceiptMeta` and `ExecutionResult` each. */
  readonly receipts: readonly Uint8Array[];
  readonly results: readonly Uint8Array[];
  readonly protocolStateId: Uint8Array;
  /** `google.protobuf.Timestamp`, in whole milliseconds. */
  readonly timestamp: Uint8Array;
  readonly view: number;
  readonly parentView: number;
  readonly proposerId: Uint8Array;
  readonly parentVoterIndices: Uint8Array;
  readonly parentVoterSigData: Uint8Array;
  /** `flow.entities.TimeoutCertificate`. */
  readonly lastViewTC?: Uint8Array | undefined;
}

/** A block with the id that its header hashes to. */
export interface HashedBlock {
  readonly id: Identifier;
  /** `flow.entities.BlockHeader`. */
  readonly header: Uint8Array;
  /** Fields of `flow.entities.Block` that only its full form has. */
  readonly extras: Uint8Array;
  readonly parentVoterSigData: Uint8Array;
}

/**
 * The ids of a chain whose blocks hash to their ids, as those of Flow do since mainnet27 (H8, P8). Each id depends on the
 * one below, so the blocks from the root up to the highest one asked for are made once; 32 bytes of each are kept.
 */
export class HashedBlocks {
  readonly #options: {
    readonly rootHeight: number;
    readonly rootParentId: Identifier;
    readonly chainId: string;
  };
  readonly #contentOf: (height: number, fork: Fork) => HashedContent;
  readonly #hasher = new BlockHasher();
  /** The ids from the root on. */
  #ids = Buffer.alloc(1024 * ID_BYTES);
  #known = 0;
  readonly #heights = new Map<Identifier, { readonly height: number; readonly fork: Fork }>();

  constructor(
    options: { readonly rootHeight: number; readonly rootParentId: Identifier; readonly chainId: string },
    { contentOf }: { readonly contentOf: (height: number, fork: Fork) => HashedContent },
  ) {
    this.#options = options;
    this.#contentOf = contentOf;
  }

  idAt(height: number, fork: Fork = 'chain'): Buffer {
    if (fork === 'orphan') {
      const { id } = this.block(height, 'orphan');
      this.#heights.set(id, { height, fork });
      return identifierBytes(id);
    }
    const place = height - this.#options.rootHeight;
    while (this.#known <= place) this.#append();
    return this.#ids.subarray(place * ID_BYTES, (place + 1) * ID_BYTES);
  }

  /** Knows the heights that were asked for, and all below. */
  locate(id: Buffer): { readonly height: number; readonly fork: Fork } | undefined {
    return id.length === ID_BYTES ? this.#heights.get(toIdentifier(id)) : undefined;
  }

  /** A block, or its orphan: made by another proposer. */
  block(height: number, fork: Fork = 'chain'): HashedBlock {
    const { rootHeight, rootParentId } = this.#options;
    const parentId = height === rootHeight ? rootParentId : toIdentifier(this.idAt(height - 1));
    return this.#seal(height, parentId, this.#contentOf(height, fork));
  }

  #append(): void {
    const height = this.#options.rootHeight + this.#known;
    const { id } = this.block(height);
    if ((this.#known + 1) * ID_BYTES > this.#ids.length)
      this.#ids = Buffer.concat([this.#ids, Buffer.alloc(this.#ids.length)]);
    this.#ids.set(identifierBytes(id), this.#known * ID_BYTES);
    this.#heights.set(id, { height, fork: 'chain' });
    this.#known += 1;
  }

  #seal(height: number, parentId: Identifier, content: HashedContent): HashedBlock {
    const { guarantees, seals, receipts, results, protocolStateId } = content;
    const payload = new WireWriter()
      .bytes(1, Buffer.alloc(ID_BYTES, 1))
      .bytes(2, identifierBytes(parentId))
      .elements(5, guarantees)
      .elements(6, seals)
      .elements(8, receipts)
      .finish();
    const scanned = scanFullBlock(payload);
    const hasher = this.#hasher;
    hasher.load(scanned.bytes);
    const roots = Buffer.alloc(ROOTS * ID_BYTES);
    hasher.root(hasher.guaranteeIds('P8', scanned.guarantees), roots, 0);
    hasher.root(hasher.sealIds(scanned.seals), roots, ID_BYTES);
    hasher.root(hasher.receiptIds('P8', scanned.receipts), roots, 2 * ID_BYTES);
    const resultIds = scanned.receipts.map(({ resultId }) => hasher.sourceText(resultId));
    hasher.root(resultIds.slice(0, results.length), roots, 3 * ID_BYTES);
    roots.set(protocolStateId, 4 * ID_BYTES);
    const hash = Buffer.from(payloadHash(roots), 'latin1');

    const unnamed = this.#header(height, parentId, content, hash);
    const withHeader = scanFullBlock(
      new WireWriter()
        .bytes(1, Buffer.alloc(ID_BYTES, 1))
        .bytes(2, identifierBytes(parentId))
        .element(10, unnamed)
        .finish(),
    );
    if (withHeader.header === undefined) throw new Error('a devnet block has no header');
    hasher.load(withHeader.bytes);
    const id = hasher.headerId('H8', withHeader.header);
    const header = Buffer.concat([new WireWriter().bytes(1, identifierBytes(id)).finish(), unnamed]);
    const extras = new WireWriter()
      .elements(6, seals)
      .elements(8, receipts)
      .elements(9, results)
      .element(10, header)
      .bytes(11, protocolStateId)
      .finish();
    return { id, header, extras, parentVoterSigData: content.parentVoterSigData };
  }

  #header(height: number, parentId: Identifier, content: HashedContent, hash: Buffer): Uint8Array {
    const writer = new WireWriter()
      .bytes(2, identifierBytes(parentId))
      .number(3, height)
      .element(4, content.timestamp)
      .bytes(5, hash)
      .number(6, content.view)
      .bytes(8, content.parentVoterSigData)
      .bytes(9, content.proposerId)
      .text(11, this.#options.chainId)
      .bytes(12, content.parentVoterIndices);
    if (content.lastViewTC !== undefined) writer.element(13, content.lastViewTC);
    return writer.number(14, content.parentView).finish();
  }
}
