import {
  identifierBytes,
  splitCollection,
  toIdentifier,
  transactionId,
  WireWriter,
  ZERO_ID,
} from '../../flow/index.js';
import type { Identifier } from '../../flow/index.js';
import type { IndexReader, IndexStore, StoredBlock } from '../../storage/index.js';
import { ApiError, heightOutside, noSuchHead, unknownId } from '../errors.js';
import type { StatusSource } from '../status.js';
import type { UnaryCall } from './calls.js';

const NOTHING = Buffer.alloc(0);
const IDENTIFIER_BYTES = ZERO_ID.length / 2;

/** Field of all three requests for a block. */
const FULL_BLOCK_RESPONSE = 2;

const FINALIZED = 1;
const SEALED = 2;

export interface AccessCallsOptions {
  readonly chainId: string;
  /** Of the program. */
  readonly version: string;
}

export interface AccessCallsDependencies {
  readonly store: IndexReader & Pick<IndexStore, 'latestBlock' | 'meta'>;
  readonly status: Pick<StatusSource, 'range'>;
}

/**
 * The calls of `flow.access.AccessAPI` that an index can answer. Blocks, collections and transactions are sent as they are
 * stored, which is their wire form: nothing is decoded on the way.
 */
export class AccessCalls {
  readonly #options: AccessCallsOptions;
  readonly #store: AccessCallsDependencies['store'];
  readonly #status: AccessCallsDependencies['status'];
  /** The last metadata that was sent, and the block that it names. */
  #metadata: { readonly id: Identifier; readonly encoded: Buffer } | undefined;

  constructor(options: AccessCallsOptions, dependencies: AccessCallsDependencies) {
    this.#options = options;
    this.#store = dependencies.store;
    this.#status = dependencies.status;
  }

  /** By method. */
  calls(): Readonly<Record<string, UnaryCall>> {
    return {
      Ping: () => NOTHING,
      GetNodeVersionInfo: () => this.#nodeVersionInfo(),
      GetNetworkParameters: () => new WireWriter().text(1, this.#options.chainId).finish(),
      GetLatestBlock: light((request) => this.#latestBlock(request.flag(1) ? 'sealed' : 'final')),
      GetBlockByID: light((request) => this.#blockById(idOf('block', request.bytes(1)))),
      GetBlockByHeight: light((request) => this.#blockByHeight(heightOf(request.number(1)))),
      GetCollectionByID: (request) => this.#collection(idOf('collection', request.bytes(1))),
      GetFullCollectionByID: (request) => this.#fullCollection(idOf('collection', request.bytes(1))),
      GetTransaction: (request) => this.#transaction(idOf('transaction', request.bytes(1))),
      GetTransactionsByBlockID: (request) => this.#blockTransactions(idOf('block', request.bytes(1))),
    };
  }

  /** The index as a node: its own version, the spork it has reached, and the first height that it serves. */
  #nodeVersionInfo(): Buffer {
    const { firstHeight = 0, sporks = [] } = this.#store.meta() ?? {};
    const spork = sporks.at(-1);
    const info = new WireWriter()
      .text(1, `v${this.#options.version}`)
      .bytes(3, Buffer.from(spork?.sporkId ?? '', 'hex'))
      .number(5, spork?.rootHeight ?? 0)
      .number(6, firstHeight);
    return new WireWriter().element(1, info.finish()).finish();
  }

  async #latestBlock(head: 'final' | 'sealed'): Promise<Buffer> {
    const range = this.#status.range();
    const { firstIndexed, latestIndexed, sealed } = range;
    if (firstIndexed === null || latestIndexed === null) throw noSuchHead(head, range);
    const height = head === 'final' ? latestIndexed : Math.min(latestIndexed, sealed ?? -1);
    if (height < firstIndexed) throw noSuchHead(head, range);
    return this.#blockByHeight(height);
  }

  async #blockByHeight(height: number): Promise<Buffer> {
    const stored = await this.#store.blockByHeight(height);
    if (stored === undefined) throw heightOutside(height, this.#status.range());
    return this.#blockResponse(stored);
  }

  async #blockById(id: Identifier): Promise<Buffer> {
    return this.#blockResponse(await this.#storedBlock(id));
  }

  #blockResponse({ block }: StoredBlock): Buffer {
    const sealed = this.#status.range().sealed ?? -1;
    return new WireWriter()
      .element(1, block.encoded)
      .number(2, block.height <= sealed ? SEALED : FINALIZED)
      .element(3, this.#metadataOfNow())
      .finish();
  }

  /** The ids are computed anew: the index keeps them as keys only. */
  async #collection(id: Identifier): Promise<Buffer> {
    const transactions = splitCollection(await this.#storedCollection(id));
    const collection = new WireWriter()
      .bytes(1, identifierBytes(id))
      .elements(2, transactions.map(transactionId))
      .finish();
    return new WireWriter().element(1, collection).element(2, this.#metadataOfNow()).finish();
  }

  async #fullCollection(id: Identifier): Promise<Buffer> {
    return this.#transactions([await this.#storedCollection(id)]);
  }

  async #transaction(id: Identifier): Promise<Buffer> {
    const stored = await this.#store.transaction(id);
    if (stored === undefined) throw unknownId('transaction', this.#status.range());
    return new WireWriter().element(1, stored.encoded).element(2, this.#metadataOfNow()).finish();
  }

  /** Of the guaranteed collections: the index keeps no transactions of the system chunk. */
  async #blockTransactions(id: Identifier): Promise<Buffer> {
    const { block } = await this.#storedBlock(id);
    const collections = await this.#store.collectionsByHeight(block.height);
    if (collections === undefined) throw unknownId('block', this.#status.range());
    return this.#transactions(collections.map(({ encoded }) => encoded));
  }

  /** Stored collections are `repeated Transaction transactions = 1` already. */
  #transactions(collections: readonly Uint8Array[]): Buffer {
    return Buffer.concat([...collections, new WireWriter().element(2, this.#metadataOfNow()).finish()]);
  }

  async #storedBlock(id: Identifier): Promise<StoredBlock> {
    const stored = await this.#store.blockById(id);
    if (stored === undefined) throw unknownId('block', this.#status.range());
    return stored;
  }

  async #storedCollection(id: Identifier): Promise<Uint8Array> {
    const stored = await this.#store.collection(id);
    if (stored === undefined) throw unknownId('collection', this.#status.range());
    return stored.encoded;
  }

  /**
   * `flow.entities.Metadata`: the newest block that is served here, as finalized and as indexed. There is no node, and so no
   * node id. Asked for after what is answered was read, so that it is never behind that.
   */
  #metadataOfNow(): Buffer {
    const latest = this.#store.latestBlock();
    if (latest === undefined) return NOTHING;
    const { id, height } = latest;
    if (this.#metadata?.id !== id) {
      const metadata = new WireWriter().bytes(1, identifierBytes(id)).number(2, height).number(4, height);
      this.#metadata = { id, encoded: metadata.finish() };
    }
    return this.#metadata.encoded;
  }
}

/**
 * A call for a block, whose field 2 asks for the full form: with headers, seals, receipts and results, which an index does not
 * keep. A light one in its place would pass for a block that has none. Expected errors: ApiError (not_served).
 */
function light(call: UnaryCall): UnaryCall {
  return (request) => {
    if (!request.flag(FULL_BLOCK_RESPONSE)) return call(request);
    const message =
      'full_block_response is not served: this index keeps blocks in their light form; ask without it, or ask an access node';
    throw new ApiError(404, 'not_served', message);
  };
}

/** Expected errors: ApiError (malformed_id). */
function idOf(what: string, bytes: Uint8Array): Identifier {
  if (bytes.length === IDENTIFIER_BYTES) return toIdentifier(bytes);
  const message = `invalid ${what} ID: expected ${IDENTIFIER_BYTES} raw bytes, got ${bytes.length}`;
  throw new ApiError(400, 'malformed_id', message);
}

/** Expected errors: ApiError (invalid_argument). */
function heightOf(height: bigint): number {
  if (height <= Number.MAX_SAFE_INTEGER) return Number(height);
  const message = `invalid height: expected a number up to ${Number.MAX_SAFE_INTEGER}, got ${height}`;
  throw new ApiError(400, 'invalid_argument', message);
}
