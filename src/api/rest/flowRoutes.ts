import { identifyTransactions } from '../../flow/index.js';
import type { IndexReader, StoredBlock } from '../../storage/index.js';
import type { HttpResponse } from '../http/types.js';
import { blockBody, blockCollectionsSchema, blockSchema, collectionSchema, payloadSchema } from '../json.js';
import { restBlock, restBlockCollections, restCollection, restTransaction } from '../json.js';
import { transactionSchema } from '../json.js';
import { anId, byId, expand, finality, heightErrors, idErrors, inPath, inQuery, select } from '../openapi.js';
import type { Route } from '../openapi.js';
import * as T from '../Schema.js';
import { IndexView, nodeVersion } from '../view/IndexView.js';
import * as parse from '../view/queryParameters.js';
import { rangeFor, type Query } from '../view/queryParameters.js';
import type { StatusSource } from '../view/statusDocument.js';

/** What can be expanded; and what access nodes can expand, but an index cannot. */
const PAYLOAD = 'payload';
const TRANSACTIONS = 'transactions';
const EXECUTION_RESULT = 'execution_result';
const RESULT = 'result';

const blocks = T.arrayOf(blockSchema, parse.MAX_ITEMS).named('Blocks');

/**
 * The routes of Flow's REST interface that an index can serve, in Flow's shapes. Each request sees one view of the
 * index, as of its arrival.
 */
export function flowRoutes(
  options: {
    readonly chainId: string;
    /** Version of the program. */
    readonly version: string;
  },
  dependencies: { readonly reader: IndexReader; readonly status: Pick<StatusSource, 'range'> },
): readonly Route[] {
  const { reader, status } = dependencies;
  /** The index at this moment, as far as the query asks for it. */
  const now = (query: Query): IndexView => new IndexView(reader, rangeFor(query, status));
  return [
    {
      path: '/v1/blocks',
      operation: 'getBlocksByHeight',
      summary:
        'Blocks by height: a list, a range with both ends, or one of the words final (or latest) and sealed.',
      parameters: [
        inQuery(
          'height',
          `A height, final (or latest), sealed, or up to ${parse.MAX_ITEMS} comma-separated heights.`,
        ),
        inQuery('start_height', 'A decimal height, final, sealed or latest.'),
        inQuery('end_height', `At most ${parse.MAX_ITEMS} heights, both ends included.`),
        finality,
        expand(PAYLOAD),
        select,
      ],
      response: blocks,
      errors: ['invalid_argument', 'not_served', 'too_many', ...heightErrors],
      handle: async ({ query }) => {
        const view = now(query);
        const { heights, namesHead } = parse.parseHeights(query, (term) => view.heightOf(term));
        return blocksResponse(heights, { view, query, mayBeForever: !namesHead });
      },
    },
    {
      path: '/v1/blocks/{ids}',
      operation: 'getBlocksById',
      summary: 'Blocks by id.',
      parameters: [
        inPath('ids', `One id, or up to ${parse.MAX_ITEMS} comma-separated ids.`),
        finality,
        expand(PAYLOAD),
        select,
      ],
      response: blocks,
      errors: ['invalid_argument', 'not_served', 'too_many', ...idErrors],
      handle: async ({ params, query }) => {
        const ids = parse.parseIds(params['ids'] ?? '');
        return blocksResponse(ids, { view: now(query), query, mayBeForever: true });
      },
    },
    {
      path: '/v1/blocks/{id}/payload',
      operation: 'getBlockPayload',
      summary: 'The payload of a block: its collection guarantees.',
      parameters: [byId, finality, select],
      response: payloadSchema,
      errors: ['invalid_argument', ...idErrors],
      handle: async ({ params, query }) => {
        const id = parse.parseId(params['id'] ?? '');
        const { block } = await now(query).block(id);
        return kept(blockBody(block.encoded).payload, query);
      },
    },
    {
      path: '/v1/blocks/{block}/collections',
      operation: 'getBlockCollections',
      summary:
        'All collections of a block with the ids of their transactions. Not in the REST interface of Flow.',
      parameters: [
        inPath('block', 'An id, height, final or sealed.'),
        finality,
        expand(TRANSACTIONS),
        select,
      ],
      response: blockCollectionsSchema,
      errors: ['invalid_argument', ...idErrors, 'below_first_indexed', 'hole'],
      kind: 'bulk',
      handle: async ({ params, query }) => {
        const view = now(query);
        const isExpanded = parse.parseExpand(query, [TRANSACTIONS]).has(TRANSACTIONS);
        const { whole, isForever } = await blockNamed(params['block'] ?? '', view);
        return kept(restBlockCollections(whole, isExpanded), query, isForever);
      },
    },
    {
      path: '/v1/collections/{id}',
      operation: 'getCollection',
      summary: 'A collection.',
      parameters: [byId, finality, expand(TRANSACTIONS), select],
      response: collectionSchema,
      errors: ['invalid_argument', ...idErrors],
      handle: async ({ params, query }) => {
        const id = parse.parseId(params['id'] ?? '');
        const expanded = parse.parseExpand(query, [TRANSACTIONS]);
        const { encoded } = await now(query).item('collection', id);
        return kept(restCollection(id, identifyTransactions(encoded), expanded.has(TRANSACTIONS)), query);
      },
    },
    {
      path: '/v1/transactions',
      operation: 'getTransactionsOfBlock',
      summary:
        'The transactions of a block, by its id or height: those of its guaranteed collections in order. System transactions are not indexed.',
      parameters: [
        inQuery('block_id', 'Either this, or block_height.', anId),
        inQuery('block_height', 'A decimal height, final or sealed; sealed where no block is named.'),
        finality,
        select,
      ],
      response: T.arrayOf(transactionSchema).named('Transactions'),
      errors: ['invalid_argument', 'not_served', ...idErrors, 'below_first_indexed', 'hole'],
      kind: 'bulk',
      handle: async ({ query }) => {
        const view = now(query);
        const requested = parse.parseBlockOf(query);
        parse.parseExpand(query, [], [RESULT]);
        const { whole, isForever } = await blockNamed(requested, view);
        const transactions = whole.bodies.flatMap(identifyTransactions);
        return kept(transactions.map(restTransaction), query, isForever);
      },
    },
    {
      path: '/v1/transactions/{id}',
      operation: 'getTransaction',
      summary: 'A transaction.',
      parameters: [byId, finality, select],
      response: transactionSchema,
      errors: ['invalid_argument', 'not_served', ...idErrors],
      handle: async ({ params, query }) => {
        const id = parse.parseTransactionId(params['id'] ?? '');
        parse.parseExpand(query, [], [RESULT]);
        return kept(restTransaction(await now(query).item('transaction', id)), query);
      },
    },
    {
      path: '/v1/network/parameters',
      operation: 'getNetworkParameters',
      summary: 'The indexed chain.',
      parameters: [],
      response: T.object({ chain_id: T.text }).named('NetworkParameters'),
      errors: [],
      handle: () => ({ body: { chain_id: options.chainId }, kept: 'revalidated' }),
    },
    {
      path: '/v1/node_version_info',
      operation: 'getNodeVersionInfo',
      summary: 'The version of the indexer, the spork, and the heights that can be read.',
      parameters: [],
      response: nodeVersionInfoSchema,
      errors: ['not_yet_indexed'],
      handle: () => {
        const node = nodeVersion(options.version, reader.meta(), status.range());
        const body: T.Described<typeof nodeVersionInfoSchema> = {
          semver: node.semver,
          commit: '',
          spork_id: node.sporkId,
          protocol_version: '0',
          protocol_state_version: '0',
          spork_root_block_height: String(node.sporkRootHeight),
          node_root_block_height: String(node.firstHeight),
          ...(node.readable && {
            compatible_range: {
              start_height: String(node.readable.start),
              end_height: String(node.readable.end),
            },
          }),
        };
        return { body, kept: 'revalidated' };
      },
    },
  ];
}

/** `isForever`: the name always means the same block. */
async function blockNamed(named: string, view: IndexView) {
  const whole = await view.wholeBlock(named);
  const isSettled = parse.parseHeight(named) === undefined || view.isSealed(whole.block.height);
  return { whole, isForever: isSettled && parse.headTerm(named) === undefined };
}

/** `mayBeForever`: false if the same request will mean other blocks. */
async function blocksResponse(
  keys: readonly Parameters<IndexView['block']>[0][],
  { view, query, mayBeForever }: { view: IndexView; query: Query; mayBeForever: boolean },
): Promise<HttpResponse> {
  const isExpanded = parse.parseExpand(query, [PAYLOAD], [EXECUTION_RESULT]).has(PAYLOAD);
  const stored: StoredBlock[] = [];
  for (const key of keys) stored.push(await view.block(key));
  const blocks = stored.map(({ block: { encoded, height } }) =>
    restBlock(encoded, { isExpanded, isProven: view.isProven(height), isSealed: view.isSealed(height) }),
  );
  // Where finality is proven, what is not proven yet may become so.
  const isSettled = ({ block: { height } }: StoredBlock): boolean =>
    view.isSealed(height) && (view.range.proven === undefined || view.isProven(height));
  return kept(blocks, query, mayBeForever && stored.every(isSettled));
}

const nodeVersionInfoSchema = T.object(
  {
    semver: T.text.note('The version of the indexer, with a leading v.'),
    commit: T.text.note('Always empty.'),
    spork_id: T.hexDigits.note('Of the newest spork that can be read; empty when no node reported one.'),
    protocol_version: T.decimal.note('Always 0: the indexer takes no part in the protocol.'),
    protocol_state_version: T.decimal.note('Always 0.'),
    spork_root_block_height: T.decimal,
    node_root_block_height: T.decimal.note('The first indexed height; one that heals counts.'),
  },
  {
    compatible_range: T.object({ start_height: T.decimal, end_height: T.decimal }).note(
      'The heights that can be read; absent while there are none.',
    ),
  },
).named('NodeVersionInfo');

/** A response that callers may keep, with the selected fields. */
function kept(document: unknown, query: Query, isForever = true): HttpResponse {
  const paths = parse.parseSelect(query);
  return {
    body: paths.length === 0 ? document : selectFields(document, paths),
    kept: isForever ? 'forever' : 'revalidated',
  };
}

/**
 * Keeps the named fields only, as Flow's `select` does: a path names a field with all below it, dots lead into objects, arrays
 * are passed through (`header.id`, `transactions.payer`). Objects and arrays that end up empty are left out with their names, and
 * an array with one item that ends up empty is emptied.
 */
export function selectFields(value: unknown, paths: readonly string[]): unknown {
  if (Array.isArray(value)) {
    const selected = value.map((item) => selectFields(item, paths));
    return selected.some(isNothing) ? [] : selected;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const fields = Object.entries(value).flatMap(([key, field]: [string, unknown]) => {
    if (paths.includes(key)) return [[key, field]];
    const below = paths.flatMap((path) => (path.startsWith(`${key}.`) ? [path.slice(key.length + 1)] : []));
    const selected = selectFields(field, below);
    return isNothing(selected) ? [] : [[key, selected]];
  });
  return Object.fromEntries(fields);
}

function isNothing(value: unknown): boolean {
  return value === undefined || (typeof value === 'object' && Object.keys(value ?? {}).length === 0);
}
