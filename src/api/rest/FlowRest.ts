import type { IndexReader, IndexStore, StoredBlock } from '../../storage/index.js';
import type { HttpAnswer, HttpRequest } from '../http/types.js';
import { IndexView } from '../view/IndexView.js';
import { nodeVersion } from '../view/nodeVersion.js';
import {
  heightRange,
  parseBlockKey,
  parseBlockOf,
  parseExpand,
  parseHeights,
  parseId,
  parseIds,
  parseSelect,
  parseTransactionId,
} from '../view/queryParameters.js';
import type { HeightTerm, Query } from '../view/queryParameters.js';
import { restBlock, restBlockPayload } from '../json/block.js';
import { restBlockCollections, restCollection, restTransactions } from '../json/collection.js';
import { restNodeVersionInfo } from '../json/nodeVersionInfo.js';
import { selectFields } from '../json/selectFields.js';
import { restTransaction } from '../json/transaction.js';
import { EXECUTION_RESULT, flowRoutes, PAYLOAD, RESULT, TRANSACTIONS } from '../openapi/routeTable.js';
import type { Route } from '../openapi/routeTable.js';
import type { StatusSource } from '../view/statusDocument.js';
import { entityTag } from '../http/cacheHeaders.js';

/** The read side of the store, and what it says of itself. */
export type FlowRestReader = IndexReader & Pick<IndexStore, 'meta'>;

export interface FlowRestOptions {
  readonly chainId: string;
  /** Of the program. */
  readonly version: string;
}

/**
 * The routes of Flow's REST interface that an index can answer, in Flow's shapes, over the read side of the store.
 * Each request is answered by one view of the index, of the moment when it came.
 */
export class FlowRest {
  readonly #options: FlowRestOptions;
  readonly #reader: FlowRestReader;
  readonly #status: Pick<StatusSource, 'range'>;

  constructor(
    options: FlowRestOptions,
    dependencies: { readonly reader: FlowRestReader; readonly status: Pick<StatusSource, 'range'> },
  ) {
    this.#options = options;
    this.#reader = dependencies.reader;
    this.#status = dependencies.status;
  }

  routes(): readonly Route[] {
    return [
      { ...flowRoutes.blocksByHeight, handle: (request) => this.#blocksByHeight(request) },
      { ...flowRoutes.blocksById, handle: (request) => this.#blocksById(request) },
      { ...flowRoutes.payload, handle: (request) => this.#payload(request) },
      { ...flowRoutes.blockCollections, handle: (request) => this.#blockCollections(request) },
      { ...flowRoutes.collection, handle: (request) => this.#collection(request) },
      { ...flowRoutes.transactionsOfBlock, handle: (request) => this.#transactionsOfBlock(request) },
      { ...flowRoutes.transaction, handle: (request) => this.#transaction(request) },
      { ...flowRoutes.networkParameters, handle: () => this.#networkParameters() },
      { ...flowRoutes.nodeVersionInfo, handle: () => this.#nodeVersionInfo() },
    ];
  }

  async #blocksByHeight({ query }: HttpRequest): Promise<HttpAnswer> {
    const view = this.#view();
    const asked = parseHeights(query);
    const terms = 'start' in asked ? [asked.start, asked.end] : asked;
    const heights =
      'start' in asked
        ? heightRange(resolve(asked.start, view), resolve(asked.end, view))
        : asked.map((term) => resolve(term, view));
    const expand = parseExpand(query, [PAYLOAD], [EXECUTION_RESULT]);
    const blocks: StoredBlock[] = [];
    for (const height of heights) blocks.push(await view.block(height));
    const namesHead = terms.some((term) => typeof term === 'string');
    return blocksAnswer(blocks, { view, query, expand, mayBeForever: !namesHead });
  }

  async #blocksById({ params, query }: HttpRequest): Promise<HttpAnswer> {
    const view = this.#view();
    const ids = parseIds(params['ids'] ?? '');
    const expand = parseExpand(query, [PAYLOAD], [EXECUTION_RESULT]);
    const blocks: StoredBlock[] = [];
    for (const id of ids) blocks.push(await view.block(id));
    return blocksAnswer(blocks, { view, query, expand, mayBeForever: true });
  }

  async #payload({ params, query }: HttpRequest): Promise<HttpAnswer> {
    const view = this.#view();
    const id = parseId(params['id'] ?? '');
    const { block } = await view.block(id);
    const subject = { what: 'payload', ids: [id], query, isForever: true };
    return kept(subject, () => restBlockPayload(block.encoded));
  }

  async #blockCollections({ params, query }: HttpRequest): Promise<HttpAnswer> {
    const view = this.#view();
    const key = parseBlockKey(params['block'] ?? '');
    const expand = parseExpand(query, [TRANSACTIONS]);
    const { block } = await view.block(key);
    const collections = await view.collectionsOf(block);
    const isForever = typeof key === 'string' || view.isSealed(key);
    const subject = { what: 'blockCollections', ids: [block.id], query, expand, isForever };
    const transactions = expand.has(TRANSACTIONS);
    return kept(subject, () => restBlockCollections(block.id, block.height, collections, { transactions }));
  }

  async #collection({ params, query }: HttpRequest): Promise<HttpAnswer> {
    const view = this.#view();
    const id = parseId(params['id'] ?? '');
    const expand = parseExpand(query, [TRANSACTIONS]);
    const stored = await view.collection(id);
    const subject = { what: 'collection', ids: [id], query, expand, isForever: true };
    const transactions = expand.has(TRANSACTIONS);
    return kept(subject, () => restCollection(id, stored.encoded, { transactions }));
  }

  async #transactionsOfBlock({ query }: HttpRequest): Promise<HttpAnswer> {
    const view = this.#view();
    const asked = parseBlockOf(query);
    parseExpand(query, [], [RESULT]);
    const { block } = await view.block('id' in asked ? asked.id : resolve(asked.term, view));
    const collections = await view.collectionsOf(block);
    const isForever = 'id' in asked || (typeof asked.term === 'number' && view.isSealed(asked.term));
    const subject = { what: 'transactionsOfBlock', ids: [block.id], query, isForever };
    return kept(subject, () => restTransactions(collections));
  }

  async #transaction({ params, query }: HttpRequest): Promise<HttpAnswer> {
    const view = this.#view();
    const id = parseTransactionId(params['id'] ?? '');
    parseExpand(query, [], [RESULT]);
    const stored = await view.transaction(id);
    const subject = { what: 'transaction', ids: [id], query, isForever: true };
    return kept(subject, () => restTransaction(id, stored.encoded));
  }

  #networkParameters(): HttpAnswer {
    const body = { chain_id: this.#options.chainId };
    return { body, validity: { tag: entityTag('network', body.chain_id), isForever: false } };
  }

  #nodeVersionInfo(): HttpAnswer {
    const node = nodeVersion(this.#options.version, this.#reader.meta(), this.#status.range());
    const body = restNodeVersionInfo(node);
    return { body, validity: { tag: entityTag('node', JSON.stringify(body)), isForever: false } };
  }

  /** The index at this moment. */
  #view(): IndexView {
    return new IndexView(this.#status.range(), { reader: this.#reader });
  }
}

function blocksAnswer(
  blocks: readonly StoredBlock[],
  asked: {
    readonly view: IndexView;
    readonly query: Query;
    readonly expand: ReadonlySet<string>;
    /** False: the same request will be about other blocks. */
    readonly mayBeForever: boolean;
  },
): HttpAnswer {
  const { view, query, expand, mayBeForever } = asked;
  const sealed = view.range.sealed ?? undefined;
  const payload = expand.has(PAYLOAD);
  const areSealed = blocks.map(({ block }) => view.isSealed(block.height));
  const subject = {
    ...{ what: 'blocks', query, expand },
    ids: blocks.map(({ block }, index) => `${block.id}${areSealed[index] === true ? ' sealed' : ''}`),
    isForever: mayBeForever && !areSealed.includes(false),
  };
  return kept(subject, () => blocks.map(({ block }) => restBlock(block.encoded, sealed, { payload })));
}

/** An answer that callers may keep: its tag follows from what it is of, and which of it is shown. */
function kept(
  subject: {
    readonly what: string;
    readonly ids: readonly string[];
    readonly query: Query;
    readonly expand?: ReadonlySet<string>;
    readonly isForever: boolean;
  },
  build: () => unknown,
): HttpAnswer {
  const { what, ids, query, expand = [], isForever } = subject;
  const paths = parseSelect(query);
  return {
    validity: { tag: entityTag(what, ids, [...expand], paths), isForever },
    build: () => (paths.length === 0 ? build() : selectFields(build(), paths)),
  };
}

function resolve(term: HeightTerm, view: IndexView): number {
  return typeof term === 'number' ? term : view.head(term);
}
