import type { Identifier } from '../flow/index.js';
import type { IndexReader, IndexStore, StoredBlock, StoredCollection } from '../storage/index.js';
import { heightOutside, noSuchHead, nothingIndexed, unknownId } from './errors.js';
import type { HttpAnswer, HttpRequest } from './http.js';
import { readBlock } from './lookup.js';
import {
  heightRange,
  parseBlockId,
  parseBlockKey,
  parseExpand,
  parseHeights,
  parseId,
  parseIds,
  parseSelect,
} from './query.js';
import type { HeightTerm, Query } from './query.js';
import { restBlock, restBlockPayload } from './rest/block.js';
import { restBlockCollections, restCollection, restTransactions } from './rest/collection.js';
import { restNodeVersionInfo } from './rest/node.js';
import { selectFields } from './rest/select.js';
import { restTransaction } from './rest/transaction.js';
import { flowRoutes, PAYLOAD, TRANSACTIONS } from './routes.js';
import type { Route } from './routes.js';
import type { IndexedRange, StatusSource } from './status.js';
import { entityTag } from './validity.js';

/** The read side of the store, and what it says of itself. */
export type FlowRestReader = IndexReader & Pick<IndexStore, 'meta'>;

/**
 * The routes of Flow's REST interface that an index can answer, in Flow's shapes, over the read side of the store. The
 * indexed range is looked at before the store is, so that what an answer says of the range held when the store was read.
 */
export class FlowRest {
  readonly #reader: FlowRestReader;
  readonly #status: StatusSource;

  constructor(dependencies: { readonly reader: FlowRestReader; readonly status: StatusSource }) {
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
    const range = this.#status.range();
    const asked = parseHeights(query);
    const terms = 'start' in asked ? [asked.start, asked.end] : asked;
    const heights =
      'start' in asked
        ? heightRange(resolve(asked.start, range), resolve(asked.end, range))
        : asked.map((term) => resolve(term, range));
    const expand = parseExpand(query, [PAYLOAD]);
    const blocks: StoredBlock[] = [];
    for (const height of heights) blocks.push(await readBlock(this.#reader, height, range));
    const namesHead = terms.some((term) => typeof term === 'string');
    return blocksAnswer(blocks, { range, query, expand, mayBeForever: !namesHead });
  }

  async #blocksById({ params, query }: HttpRequest): Promise<HttpAnswer> {
    const range = this.#status.range();
    const ids = parseIds(params['ids'] ?? '');
    const expand = parseExpand(query, [PAYLOAD]);
    const blocks: StoredBlock[] = [];
    for (const id of ids) blocks.push(await readBlock(this.#reader, id, range));
    return blocksAnswer(blocks, { range, query, expand, mayBeForever: true });
  }

  async #payload({ params, query }: HttpRequest): Promise<HttpAnswer> {
    const range = this.#status.range();
    const id = parseId(params['id'] ?? '');
    const expand = parseExpand(query, []);
    const { block } = await readBlock(this.#reader, id, range);
    const subject = { what: 'payload', ids: [id], query, expand, isForever: true };
    return kept(subject, () => restBlockPayload(block.encoded));
  }

  async #blockCollections({ params, query }: HttpRequest): Promise<HttpAnswer> {
    const range = this.#status.range();
    const key = parseBlockKey(params['block'] ?? '');
    const expand = parseExpand(query, [TRANSACTIONS]);
    const { block } = await readBlock(this.#reader, key, range);
    const collections = await this.#collectionsOf(block);
    const isForever = typeof key === 'string' || isSealed(key, range);
    const subject = { what: 'blockCollections', ids: [block.id], query, expand, isForever };
    const transactions = expand.has(TRANSACTIONS);
    return kept(subject, () => restBlockCollections(block.id, block.height, collections, { transactions }));
  }

  async #collection({ params, query }: HttpRequest): Promise<HttpAnswer> {
    const range = this.#status.range();
    const id = parseId(params['id'] ?? '');
    const expand = parseExpand(query, [TRANSACTIONS]);
    const stored = await this.#reader.collection(id);
    if (stored === undefined) throw unknownId('collection', range);
    const subject = { what: 'collection', ids: [id], query, expand, isForever: true };
    const transactions = expand.has(TRANSACTIONS);
    return kept(subject, () => restCollection(id, stored.encoded, { transactions }));
  }

  async #transactionsOfBlock({ query }: HttpRequest): Promise<HttpAnswer> {
    const range = this.#status.range();
    const id = parseBlockId(query);
    const expand = parseExpand(query, []);
    const { block } = await readBlock(this.#reader, id, range);
    const collections = await this.#collectionsOf(block);
    const subject = { what: 'transactionsOfBlock', ids: [id], query, expand, isForever: true };
    return kept(subject, () => restTransactions(collections));
  }

  async #transaction({ params, query }: HttpRequest): Promise<HttpAnswer> {
    const range = this.#status.range();
    const id = parseId(params['id'] ?? '');
    const expand = parseExpand(query, []);
    const stored = await this.#reader.transaction(id);
    if (stored === undefined) throw unknownId('transaction', range);
    const subject = { what: 'transaction', ids: [id], query, expand, isForever: true };
    return kept(subject, () => restTransaction(id, stored.encoded));
  }

  #networkParameters(): HttpAnswer {
    const body = { chain_id: this.#status.status().chainId };
    return { body, validity: { tag: entityTag('network', body.chain_id), isForever: false } };
  }

  #nodeVersionInfo(): HttpAnswer {
    const { version, ...range } = this.#status.status();
    const { firstIndexed, latestIndexed } = range;
    if (firstIndexed === null || latestIndexed === null) throw nothingIndexed(range);
    const spork = this.#reader.meta()?.sporks.at(-1);
    const body = restNodeVersionInfo({
      ...{ version, spork },
      firstHeight: firstIndexed,
      latestHeight: latestIndexed,
    });
    return { body, validity: { tag: entityTag('node', JSON.stringify(body)), isForever: false } };
  }

  /** The collections of the very block that was read before them. */
  async #collectionsOf(block: StoredBlock['block']): Promise<readonly StoredCollection[]> {
    const collections = await this.#reader.collectionsByHeight(block.height);
    if (collections?.length === block.collectionIds.length && collections.every(isOf(block.id))) {
      return collections;
    }
    // Rewound between the two reads.
    throw heightOutside(block.height, this.#status.range());
  }
}

function isOf(blockId: Identifier): (collection: StoredCollection) => boolean {
  return (collection) => collection.blockId === blockId;
}

/** A sealed block is final for every spork to come: the answer to its height does not change, and neither does its status. */
function isSealed(height: number, { sealed }: IndexedRange): boolean {
  return sealed !== null && height <= sealed;
}

function blocksAnswer(
  blocks: readonly StoredBlock[],
  asked: {
    readonly range: IndexedRange;
    readonly query: Query;
    readonly expand: ReadonlySet<string>;
    /** False: the same request will be about other blocks. */
    readonly mayBeForever: boolean;
  },
): HttpAnswer {
  const { range, query, expand, mayBeForever } = asked;
  const sealed = range.sealed ?? undefined;
  const payload = expand.has(PAYLOAD);
  const areSealed = blocks.map(({ block }) => isSealed(block.height, range));
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
    readonly expand: ReadonlySet<string>;
    readonly isForever: boolean;
  },
  build: () => unknown,
): HttpAnswer {
  const { what, ids, query, expand, isForever } = subject;
  const paths = parseSelect(query);
  return {
    validity: { tag: entityTag(what, ids, [...expand], paths), isForever },
    build: () => (paths.length === 0 ? build() : selectFields(build(), paths)),
  };
}

/** `final` is the newest block that can be served, `sealed` the newest of those that is known to be sealed. */
function resolve(term: HeightTerm, range: IndexedRange): number {
  if (typeof term === 'number') return term;
  const { firstIndexed, latestIndexed, sealed } = range;
  if (firstIndexed === null || latestIndexed === null) throw noSuchHead(term, range);
  const height = term === 'final' ? latestIndexed : Math.min(latestIndexed, sealed ?? -1);
  if (height < firstIndexed) throw noSuchHead(term, range);
  return height;
}
