import { identifierBytes, splitCollection, transactionId, WireWriter } from '../../flow/index.js';
import type { Identifier, RequestFields } from '../../flow/index.js';
import type { IndexReader, IndexStore } from '../../storage/index.js';
import { IndexView } from '../view/IndexView.js';
import { nodeVersion } from '../view/nodeVersion.js';
import type { StatusSource } from '../view/statusDocument.js';
import { heightOf, idOf, refuseFullBlock } from './callArguments.js';
import type { UnaryCall } from './calls.js';

const NOTHING = Buffer.alloc(0);

/** Field number of `full_block_response` in all three block requests. */
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

/** The index at the moment when a call arrived. */
interface Moment {
  readonly view: IndexView;
  /** `flow.entities.Metadata`. */
  readonly metadata: Buffer;
}

/** Answers a call by one moment's view of the index alone. Expected errors: as `UnaryCall`. */
type ViewedCall = (request: RequestFields, moment: Moment) => Promise<Buffer>;

/**
 * The calls of `flow.access.AccessAPI` that an index can answer. Blocks, collections and transactions are sent as
 * stored, which is their wire form: nothing is decoded on the way.
 */
export class AccessCalls {
  readonly #options: AccessCallsOptions;
  readonly #store: AccessCallsDependencies['store'];
  readonly #status: AccessCallsDependencies['status'];
  /** The last metadata sent, and the block that they name. */
  #metadata: { readonly id: Identifier; readonly encoded: Buffer } | undefined;

  constructor(options: AccessCallsOptions, dependencies: AccessCallsDependencies) {
    this.#options = options;
    this.#store = dependencies.store;
    this.#status = dependencies.status;
  }

  /** By method. */
  calls(): Readonly<Record<string, UnaryCall>> {
    const viewed =
      (call: ViewedCall): UnaryCall =>
      (request) =>
        call(request, this.#now());
    return {
      Ping: () => NOTHING,
      GetNodeVersionInfo: () => this.#nodeVersionInfo(),
      GetNetworkParameters: () => new WireWriter().text(1, this.#options.chainId).finish(),
      GetLatestBlock: light(
        viewed((request, moment) => {
          const height = moment.view.head(request.flag(1) ? 'sealed' : 'final');
          return blockResponse(height, moment);
        }),
      ),
      GetBlockByID: light(
        viewed((request, moment) => blockResponse(idOf('block', request.bytes(1)), moment)),
      ),
      GetBlockByHeight: light(
        viewed((request, moment) => blockResponse(heightOf(request.number(1)), moment)),
      ),
      GetCollectionByID: viewed(collectionResponse),
      GetFullCollectionByID: viewed(async (request, { view, metadata }) => {
        const { encoded } = await view.collection(idOf('collection', request.bytes(1)));
        return transactionsResponse([encoded], metadata);
      }),
      GetTransaction: viewed(async (request, { view, metadata }) => {
        const { encoded } = await view.transaction(idOf('transaction', request.bytes(1)));
        return new WireWriter().element(1, encoded).element(2, metadata).finish();
      }),
      // Of the guaranteed collections only: the index keeps no system-chunk transactions.
      GetTransactionsByBlockID: viewed(async (request, { view, metadata }) => {
        const { block } = await view.block(idOf('block', request.bytes(1)));
        const collections = await view.collectionsOf(block);
        return transactionsResponse(
          collections.map(({ encoded }) => encoded),
          metadata,
        );
      }),
    };
  }

  /** The index described as a node: its own version, the spork it has reached, and the heights that it serves. */
  #nodeVersionInfo(): Buffer {
    const node = nodeVersion(this.#options.version, this.#store.meta(), this.#status.range());
    const { semver, sporkId, sporkRootHeight, firstHeight, readable } = node;
    const info = new WireWriter()
      .text(1, semver)
      .bytes(3, Buffer.from(sporkId, 'hex'))
      .number(5, sporkRootHeight)
      .number(6, firstHeight);
    if (readable !== undefined) {
      info.element(7, new WireWriter().number(1, readable.start).number(2, readable.end).finish());
    }
    return new WireWriter().element(1, info.finish()).finish();
  }

  #now(): Moment {
    const view = new IndexView(this.#status.range(), { reader: this.#store });
    return { view, metadata: this.#metadataOfNow() };
  }

  /**
   * `flow.entities.Metadata`: the newest block served here, as finalized and as indexed. There is no node, so no node
   * id.
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

async function blockResponse(key: Identifier | number, { view, metadata }: Moment): Promise<Buffer> {
  const { block } = await view.block(key);
  return new WireWriter()
    .element(1, block.encoded)
    .number(2, view.isSealed(block.height) ? SEALED : FINALIZED)
    .element(3, metadata)
    .finish();
}

/** The ids are computed anew: the index keeps them as keys only. */
async function collectionResponse(request: RequestFields, { view, metadata }: Moment): Promise<Buffer> {
  const id = idOf('collection', request.bytes(1));
  const { encoded } = await view.collection(id);
  const collection = new WireWriter()
    .bytes(1, identifierBytes(id))
    .elements(2, splitCollection(encoded).map(transactionId))
    .finish();
  return new WireWriter().element(1, collection).element(2, metadata).finish();
}

/** Stored collections are `repeated Transaction transactions = 1` already. */
function transactionsResponse(collections: readonly Uint8Array[], metadata: Buffer): Buffer {
  return Buffer.concat([...collections, new WireWriter().element(2, metadata).finish()]);
}

/** A call for a block whose field 2 requests the full form. Expected errors: ApiError (not_served). */
function light(call: UnaryCall): UnaryCall {
  return (request) => {
    refuseFullBlock(request.flag(FULL_BLOCK_RESPONSE));
    return call(request);
  };
}
