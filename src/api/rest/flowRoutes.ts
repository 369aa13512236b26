import type { IndexReader, IndexStore, StoredBlock } from '../../storage/index.js';
import { entityTag } from '../http/responses/cacheHeaders.js';
import type { HttpResponse } from '../http/types.js';
import { blockSchema, payloadSchema, restBlock, restBlockPayload } from '../json/block.js';
import {
  blockCollectionsSchema,
  collectionSchema,
  restBlockCollections,
  restCollection,
  restTransactions,
} from '../json/collection.js';
import {
  networkParametersSchema,
  nodeVersionInfoSchema,
  restNodeVersionInfo,
} from '../json/nodeVersionInfo.js';
import { selectFields } from '../json/selectFields.js';
import { restTransaction, transactionSchema } from '../json/transaction.js';
import { anId, expand, heightErrors, idErrors, inPath, inQuery, select } from '../openapi/route.js';
import type { Route } from '../openapi/route.js';
import * as t from '../schema.js';
import { IndexView } from '../view/IndexView.js';
import { nodeVersion } from '../view/nodeVersion.js';
import {
  heightRange,
  MAX_ITEMS,
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
import type { StatusSource } from '../view/statusDocument.js';

const PAYLOAD = 'payload';
const TRANSACTIONS = 'transactions';
/** What access nodes can expand, but an index cannot. */
const EXECUTION_RESULT = 'execution_result';
const RESULT = 'result';

const blocks = t.named('Blocks', t.arrayOf(blockSchema, MAX_ITEMS));

/**
 * The routes of Flow's REST interface that an index can serve, in Flow's shapes. Each request sees one view of the
 * index, as of its arrival.
 */
export function flowRoutes(
  options: {
    readonly chainId: string;
    /** Of the program. */
    readonly version: string;
  },
  dependencies: {
    readonly reader: IndexReader & Pick<IndexStore, 'meta'>;
    readonly status: Pick<StatusSource, 'range'>;
  },
): readonly Route[] {
  const { reader, status } = dependencies;
  const now = (): IndexView => new IndexView(status.range(), { reader });
  return [
    {
      path: '/v1/blocks',
      operation: 'getBlocksByHeight',
      summary:
        'Blocks by height: a list, a range with both ends, or one of the words final (or latest) and sealed.',
      parameters: [
        inQuery(
          'height',
          t.note(
            `A height, final (or latest), sealed, or up to ${MAX_ITEMS} comma-separated heights.`,
            t.text,
          ),
        ),
        inQuery('start_height', t.note('A decimal height, final, sealed or latest.', t.text)),
        inQuery('end_height', t.note(`At most ${MAX_ITEMS} heights, both ends included.`, t.text)),
        expand(PAYLOAD),
        select,
      ],
      response: blocks,
      errors: ['invalid_argument', 'not_served', 'too_many', ...heightErrors],
      handle: async ({ query }) => {
        const view = now();
        const requested = parseHeights(query);
        const terms = 'start' in requested ? [requested.start, requested.end] : requested;
        const heights =
          'start' in requested
            ? heightRange(resolve(requested.start, view), resolve(requested.end, view))
            : requested.map((term) => resolve(term, view));
        const namesHead = terms.some((term) => typeof term === 'string');
        return blocksResponse(heights, { view, query, mayBeForever: !namesHead });
      },
    },
    {
      path: '/v1/blocks/{ids}',
      operation: 'getBlocksById',
      summary: 'Blocks by id.',
      parameters: [
        inPath('ids', t.note(`One id, or up to ${MAX_ITEMS} comma-separated ids.`, t.text)),
        expand(PAYLOAD),
        select,
      ],
      response: blocks,
      errors: ['invalid_argument', 'not_served', 'too_many', ...idErrors],
      handle: async ({ params, query }) =>
        blocksResponse(parseIds(params['ids'] ?? ''), { view: now(), query, mayBeForever: true }),
    },
    {
      path: '/v1/blocks/{id}/payload',
      operation: 'getBlockPayload',
      summary: 'The payload of a block: its collection guarantees.',
      parameters: [inPath('id', anId), select],
      response: payloadSchema,
      errors: ['invalid_argument', ...idErrors],
      handle: async ({ params, query }) => {
        const id = parseId(params['id'] ?? '');
        const { block } = await now().block(id);
        const subject = { what: 'payload', ids: [id], query, isForever: true };
        return kept(subject, () => restBlockPayload(block.encoded));
      },
    },
    {
      path: '/v1/blocks/{block}/collections',
      operation: 'getBlockCollections',
      summary:
        'All collections of a block with the ids of their transactions. Not in the REST interface of Flow.',
      parameters: [
        inPath('block', t.note('The id of a block, or a height.', t.text)),
        expand(TRANSACTIONS),
        select,
      ],
      response: blockCollectionsSchema,
      errors: ['invalid_argument', ...idErrors, 'below_first_indexed', 'hole'],
      isBulk: true,
      handle: async ({ params, query }) => {
        const view = now();
        const key = parseBlockKey(params['block'] ?? '');
        const expanded = parseExpand(query, [TRANSACTIONS]);
        const { block } = await view.block(key);
        const collections = await view.collectionsOf(block);
        const isForever = typeof key === 'string' || view.isSealed(key);
        const subject = { what: 'blockCollections', ids: [block.id], query, expanded, isForever };
        const transactions = expanded.has(TRANSACTIONS);
        return kept(subject, () =>
          restBlockCollections(block.id, block.height, collections, { transactions }),
        );
      },
    },
    {
      path: '/v1/collections/{id}',
      operation: 'getCollection',
      summary: 'A collection.',
      parameters: [inPath('id', anId), expand(TRANSACTIONS), select],
      response: collectionSchema,
      errors: ['invalid_argument', ...idErrors],
      handle: async ({ params, query }) => {
        const id = parseId(params['id'] ?? '');
        const expanded = parseExpand(query, [TRANSACTIONS]);
        const { encoded } = await now().collection(id);
        const subject = { what: 'collection', ids: [id], query, expanded, isForever: true };
        const transactions = expanded.has(TRANSACTIONS);
        return kept(subject, () => restCollection(id, encoded, { transactions }));
      },
    },
    {
      path: '/v1/transactions',
      operation: 'getTransactionsOfBlock',
      summary:
        'The transactions of a block, by its id or height: those of its guaranteed collections in order. System transactions are not indexed.',
      parameters: [
        inQuery('block_id', t.note('Either this, or block_height.', anId)),
        inQuery(
          'block_height',
          t.note('A decimal height, final or sealed; sealed where no block is named.', t.text),
        ),
        select,
      ],
      response: t.named('Transactions', t.arrayOf(transactionSchema)),
      errors: ['invalid_argument', 'not_served', ...idErrors, 'below_first_indexed', 'hole'],
      isBulk: true,
      handle: async ({ query }) => {
        const view = now();
        const requested = parseBlockOf(query);
        parseExpand(query, [], [RESULT]);
        const key = typeof requested === 'object' ? requested.id : resolve(requested, view);
        const { block } = await view.block(key);
        const collections = await view.collectionsOf(block);
        const isForever =
          typeof requested === 'object' || (typeof requested === 'number' && view.isSealed(requested));
        const subject = { what: 'transactionsOfBlock', ids: [block.id], query, isForever };
        return kept(subject, () => restTransactions(collections));
      },
    },
    {
      path: '/v1/transactions/{id}',
      operation: 'getTransaction',
      summary: 'A transaction.',
      parameters: [inPath('id', anId), select],
      response: transactionSchema,
      errors: ['invalid_argument', 'not_served', ...idErrors],
      handle: async ({ params, query }) => {
        const id = parseTransactionId(params['id'] ?? '');
        parseExpand(query, [], [RESULT]);
        const { encoded } = await now().transaction(id);
        const subject = { what: 'transaction', ids: [id], query, isForever: true };
        return kept(subject, () => restTransaction(id, encoded));
      },
    },
    {
      path: '/v1/network/parameters',
      operation: 'getNetworkParameters',
      summary: 'The indexed chain.',
      parameters: [],
      response: networkParametersSchema,
      errors: [],
      handle: () => tagged('network', { chain_id: options.chainId }),
    },
    {
      path: '/v1/node_version_info',
      operation: 'getNodeVersionInfo',
      summary: 'The version of the indexer, the spork, and the heights that can be read.',
      parameters: [],
      response: nodeVersionInfoSchema,
      errors: ['not_yet_indexed'],
      handle: () =>
        tagged('node', restNodeVersionInfo(nodeVersion(options.version, reader.meta(), status.range()))),
    },
  ];
}

/** A small response that callers may keep, but must revalidate. */
export function tagged(what: string, body: unknown, contentType?: string): HttpResponse {
  const validity = { tag: entityTag(what, JSON.stringify(body)), isForever: false };
  return { body, validity, ...(contentType === undefined ? {} : { contentType }) };
}

async function blocksResponse(
  keys: readonly Parameters<IndexView['block']>[0][],
  request: {
    readonly view: IndexView;
    readonly query: Query;
    /** False: the same request will be about other blocks. */
    readonly mayBeForever: boolean;
  },
): Promise<HttpResponse> {
  const { view, query, mayBeForever } = request;
  const expanded = parseExpand(query, [PAYLOAD], [EXECUTION_RESULT]);
  const stored: StoredBlock[] = [];
  for (const key of keys) stored.push(await view.block(key));
  const areSealed = stored.map(({ block }) => view.isSealed(block.height));
  const subject = {
    ...{ what: 'blocks', query, expanded },
    ids: stored.map(({ block }, index) => `${block.id}${areSealed[index] === true ? ' sealed' : ''}`),
    isForever: mayBeForever && !areSealed.includes(false),
  };
  const sealed = view.range.sealed ?? undefined;
  const payload = expanded.has(PAYLOAD);
  return kept(subject, () => stored.map(({ block }) => restBlock(block.encoded, sealed, { payload })));
}

/** A response that callers may keep: its tag follows from its subject and the selected parts. */
function kept(
  subject: {
    readonly what: string;
    readonly ids: readonly string[];
    readonly query: Query;
    readonly expanded?: ReadonlySet<string>;
    readonly isForever: boolean;
  },
  build: () => unknown,
): HttpResponse {
  const { what, ids, query, expanded = [], isForever } = subject;
  const paths = parseSelect(query);
  return {
    validity: { tag: entityTag(what, ids, [...expanded], paths), isForever },
    build: () => (paths.length === 0 ? build() : selectFields(build(), paths)),
  };
}

function resolve(term: HeightTerm, view: IndexView): number {
  return typeof term === 'number' ? term : view.head(term);
}
