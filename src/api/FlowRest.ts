import type { Identifier } from '../flow/index.js';
import type { IndexReader, StoredBlock } from '../storage/index.js';
import { heightOutside, noSuchHead, unknownId } from './errors.js';
import type { HttpAnswer, HttpHandler, HttpRequest } from './HttpServer.js';
import { heightRange, parseExpand, parseHeights, parseId, parseIds, parseSelect } from './query.js';
import type { HeightTerm, Query } from './query.js';
import { restBlock, restBlockPayload } from './rest/block.js';
import { restCollection } from './rest/collection.js';
import { selectFields } from './rest/select.js';
import { restTransaction } from './rest/transaction.js';
import type { IndexedRange, StatusSource } from './status.js';

/** The routes of Flow's REST interface that an index can answer, in Flow's shapes, over the read side of the store. */
export class FlowRest {
  readonly #reader: IndexReader;
  readonly #status: StatusSource;

  constructor(dependencies: { readonly reader: IndexReader; readonly status: StatusSource }) {
    this.#reader = dependencies.reader;
    this.#status = dependencies.status;
  }

  routes(): Readonly<Record<string, HttpHandler>> {
    return {
      '/v1/blocks': (request) => this.#blocksByHeight(request),
      '/v1/blocks/:ids': (request) => this.#blocksById(request),
      '/v1/blocks/:id/payload': (request) => this.#payload(request),
      '/v1/collections/:id': (request) => this.#collection(request),
      '/v1/transactions/:id': (request) => this.#transaction(request),
    };
  }

  async #blocksByHeight({ query }: HttpRequest): Promise<HttpAnswer> {
    const range = this.#status.range();
    const asked = parseHeights(query);
    const heights =
      'start' in asked
        ? heightRange(resolve(asked.start, range), resolve(asked.end, range))
        : asked.map((term) => resolve(term, range));
    const expand = parseExpand(query, ['payload']);
    const blocks: StoredBlock[] = [];
    for (const height of heights) {
      const block = await this.#reader.blockByHeight(height);
      if (block === undefined) throw heightOutside(height, this.#status.range());
      blocks.push(block);
    }
    return this.#blocks(blocks, expand, query);
  }

  async #blocksById({ params, query }: HttpRequest): Promise<HttpAnswer> {
    const ids = parseIds(params['ids'] ?? '');
    const expand = parseExpand(query, ['payload']);
    const blocks: StoredBlock[] = [];
    for (const id of ids) blocks.push(await this.#block(id));
    return this.#blocks(blocks, expand, query);
  }

  async #payload({ params, query }: HttpRequest): Promise<HttpAnswer> {
    parseExpand(query, []);
    const { block } = await this.#block(parseId(params['id'] ?? ''));
    return selected(restBlockPayload(block.encoded), query);
  }

  async #collection({ params, query }: HttpRequest): Promise<HttpAnswer> {
    const id = parseId(params['id'] ?? '');
    const expand = parseExpand(query, ['transactions']);
    const stored = await this.#reader.collection(id);
    if (stored === undefined) throw unknownId('collection', this.#status.range());
    return selected(restCollection(id, stored.encoded, { transactions: expand.has('transactions') }), query);
  }

  async #transaction({ params, query }: HttpRequest): Promise<HttpAnswer> {
    const id = parseId(params['id'] ?? '');
    parseExpand(query, []);
    const stored = await this.#reader.transaction(id);
    if (stored === undefined) throw unknownId('transaction', this.#status.range());
    return selected(restTransaction(id, stored.encoded), query);
  }

  async #block(id: Identifier): Promise<StoredBlock> {
    const stored = await this.#reader.blockById(id);
    if (stored === undefined) throw unknownId('block', this.#status.range());
    return stored;
  }

  #blocks(blocks: readonly StoredBlock[], expand: ReadonlySet<string>, query: Query): HttpAnswer {
    const sealed = this.#status.range().sealed ?? undefined;
    const payload = expand.has('payload');
    return selected(
      blocks.map(({ block }) => restBlock(block.encoded, sealed, { payload })),
      query,
    );
  }
}

function selected(body: unknown, query: Query): HttpAnswer {
  const paths = parseSelect(query);
  return { body: paths.length === 0 ? body : selectFields(body, paths) };
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
