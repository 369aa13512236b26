import { accountRoleNames, DEFAULT_PAGE_ITEMS, MAX_PAGE_ITEMS } from '../documents/accountTransactions.js';
import type { ApiErrorReason } from '../view/ApiError.js';
import { NDJSON_TYPE } from '../documents/exportPage.js';
import type { HttpRoute } from '../http/types.js';
import type { daemonShapes } from './daemonShapes.js';
import type { flowShapes } from './flowShapes.js';
import { described, givenIdentifier, oneOfWords, text } from './schema.js';
import type { Schema } from './schema.js';
import { lookupKinds } from '../documents/lookupDocument.js';
import { MAX_ITEMS, MAX_SELECT_PATHS } from '../view/queryParameters.js';

/** The schema name of a response in the OpenAPI document. */
export type ShapeName = keyof typeof flowShapes | keyof typeof daemonShapes;

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly isRequired: boolean;
  readonly schema: Schema;
}

/** A route's declaration, from which the server, the OpenAPI document and the text of a 404 are generated. */
export interface RouteDeclaration extends Omit<HttpRoute, 'handle'> {
  /** A name for generated clients. */
  readonly operation: string;
  readonly summary: string;
  readonly parameters: readonly Parameter[];
  /** For a stream of server-sent events, the shape of their data. */
  readonly answer: ShapeName;
  /** Media type of the response. Default: JSON. */
  readonly mediaType?: string;
  /** Refusal reasons besides those that any request may get. */
  readonly errors: readonly ApiErrorReason[];
}

export interface Route extends RouteDeclaration, HttpRoute {}

const anId = described('64 hexadecimal digits, with or without 0x.', givenIdentifier);
const ids = described(`One id, or up to ${MAX_ITEMS} with commas between them.`, text);
const term = described('A decimal height, final, sealed or latest.', text);

const path = (name: string, schema: Schema): Parameter => ({ name, in: 'path', isRequired: true, schema });
const query = (name: string, schema: Schema, isRequired = false): Parameter => ({
  name,
  in: 'query',
  isRequired,
  schema,
});

const select = query(
  'select',
  described(
    `Keeps these fields only: up to ${MAX_SELECT_PATHS} paths with commas between them; dots lead into objects, arrays are passed through.`,
    text,
  ),
);

function expand(...names: readonly string[]): Parameter {
  return query(
    'expand',
    described(
      'Puts this into the answer instead of a link. Unknown names are ignored.',
      oneOfWords(...names),
    ),
  );
}

const heightErrors = ['not_yet_indexed', 'below_first_indexed', 'hole'] as const;
const idErrors = ['malformed_id', 'not_yet_indexed', 'unknown_id'] as const;

export const PAYLOAD = 'payload';
export const TRANSACTIONS = 'transactions';
/** What access nodes can expand, but an index cannot. */
export const EXECUTION_RESULT = 'execution_result';
export const RESULT = 'result';

/** Flow's own routes under `/v1`, and our additions to them. */
export const flowRoutes = {
  blocksByHeight: {
    path: '/v1/blocks',
    operation: 'getBlocksByHeight',
    summary:
      'Blocks by height: a list, a range with both ends, or one of the words final (or latest) and sealed.',
    parameters: [
      query(
        'height',
        described(`A height, final (or latest), sealed, or up to ${MAX_ITEMS} heights with commas.`, text),
      ),
      query('start_height', term),
      query('end_height', described(`At most ${MAX_ITEMS} heights, both ends included.`, text)),
      expand(PAYLOAD),
      select,
    ],
    answer: 'Blocks',
    errors: ['invalid_argument', 'not_served', 'too_many', ...heightErrors],
  },
  blocksById: {
    path: '/v1/blocks/{ids}',
    operation: 'getBlocksById',
    summary: 'Blocks by id.',
    parameters: [path('ids', ids), expand(PAYLOAD), select],
    answer: 'Blocks',
    errors: ['invalid_argument', 'not_served', 'too_many', ...idErrors],
  },
  payload: {
    path: '/v1/blocks/{id}/payload',
    operation: 'getBlockPayload',
    summary: 'The payload of a block: its collection guarantees.',
    parameters: [path('id', anId), select],
    answer: 'BlockPayload',
    errors: ['invalid_argument', ...idErrors],
  },
  blockCollections: {
    path: '/v1/blocks/{block}/collections',
    operation: 'getBlockCollections',
    summary:
      'All collections of a block with the ids of their transactions. Not in the REST interface of Flow.',
    parameters: [
      path('block', described('The id of a block, or a height.', text)),
      expand(TRANSACTIONS),
      select,
    ],
    answer: 'BlockCollections',
    errors: ['invalid_argument', ...idErrors, 'below_first_indexed', 'hole'],
    isBulk: true,
  },
  collection: {
    path: '/v1/collections/{id}',
    operation: 'getCollection',
    summary: 'A collection.',
    parameters: [path('id', anId), expand(TRANSACTIONS), select],
    answer: 'Collection',
    errors: ['invalid_argument', ...idErrors],
  },
  transactionsOfBlock: {
    path: '/v1/transactions',
    operation: 'getTransactionsOfBlock',
    summary:
      'The transactions of a block, by its id or height: those of its guaranteed collections in order. System transactions are not indexed.',
    parameters: [
      query('block_id', described('Either this, or block_height.', anId)),
      query(
        'block_height',
        described('A decimal height, final or sealed; sealed where no block is named.', text),
      ),
      select,
    ],
    answer: 'Transactions',
    errors: ['invalid_argument', 'not_served', ...idErrors, 'below_first_indexed', 'hole'],
    isBulk: true,
  },
  transaction: {
    path: '/v1/transactions/{id}',
    operation: 'getTransaction',
    summary: 'A transaction.',
    parameters: [path('id', anId), select],
    answer: 'Transaction',
    errors: ['invalid_argument', 'not_served', ...idErrors],
  },
  networkParameters: {
    path: '/v1/network/parameters',
    operation: 'getNetworkParameters',
    summary: 'The indexed chain.',
    parameters: [],
    answer: 'NetworkParameters',
    errors: [],
  },
  nodeVersionInfo: {
    path: '/v1/node_version_info',
    operation: 'getNodeVersionInfo',
    summary: 'The version of the indexer, the spork, and the heights that can be read.',
    parameters: [],
    answer: 'NodeVersionInfo',
    errors: ['not_yet_indexed'],
  },
} as const satisfies Readonly<Record<string, RouteDeclaration>>;

/** The routes that Flow's REST does not have. */
export const daemonRoutes = {
  status: {
    path: '/status',
    operation: 'getStatus',
    summary: 'What the daemon is doing, and why.',
    parameters: [],
    answer: 'Status',
    errors: [],
  },
  lookup: {
    path: '/lookup/{kind}/{key}',
    operation: 'lookUp',
    summary: 'A block, collection or transaction with every place where it occurs.',
    parameters: [
      path('kind', oneOfWords(...lookupKinds)),
      path('key', described('An id; for a block also a height, final, sealed or latest.', text)),
    ],
    answer: 'LookupDocument',
    errors: ['invalid_argument', ...idErrors, 'below_first_indexed', 'hole'],
  },
  events: {
    path: '/events',
    operation: 'followIndex',
    summary:
      'The change feed as server-sent events: one event named height for each height, ascending and without a gap, as soon as it can be read. The id of an event is its height and block; sent back as Last-Event-ID it resumes the stream, after an event named rewind where the client has other blocks than the index. An event named end says why a stream ends.',
    parameters: [
      query(
        'from',
        described(
          'The first height; it need not be indexed yet. Without it, the next one that is indexed.',
          text,
        ),
      ),
      query(
        'wait',
        described(
          'true: at a height that is missing below the live range, wait until it is filled in. Otherwise the stream ends there, with the reason hole.',
          oneOfWords('true', 'false'),
        ),
      ),
      {
        ...{ name: 'Last-Event-ID', in: 'header', isRequired: false },
        schema: described('The id of the last event received. It takes precedence over from.', text),
      },
    ],
    answer: 'FeedEvent',
    isStream: true,
    errors: ['invalid_argument', 'not_yet_indexed', 'below_first_indexed', 'hole'],
  },
  explain: {
    path: '/explain/{key}',
    operation: 'explain',
    summary: 'Why a height, or the object with this ID, is or is not in the index.',
    parameters: [path('key', described('A height, or the ID of a block, collection or transaction.', text))],
    answer: 'Explanation',
    errors: ['malformed_id'],
  },
  export: {
    path: '/export',
    operation: 'exportPage',
    summary: 'Blocks and their transactions as lines of JSON: one page of whole blocks from a height on.',
    parameters: [
      query('from', described('The height to begin at.', text), true),
      query('to', described('The last height; the page may end lower. Default: the latest indexed.', text)),
    ],
    answer: 'ExportLine',
    mediaType: NDJSON_TYPE,
    errors: ['invalid_argument', ...heightErrors],
    isBulk: true,
  },
  accountTransactions: {
    path: '/accounts/{address}/transactions',
    operation: 'getAccountTransactions',
    summary: 'The transactions in which an account plays a role, newest first, page by page.',
    parameters: [
      path('address', described('16 hexadecimal digits, with or without 0x.', text)),
      query('role', described('All roles where none is named.', oneOfWords(...accountRoleNames))),
      query(
        'limit',
        described(`Transactions of one page: ${DEFAULT_PAGE_ITEMS}, or up to ${MAX_PAGE_ITEMS}.`, text),
      ),
      query('cursor', described('next_cursor of the previous page; without it, the newest.', text)),
    ],
    answer: 'AccountTransactions',
    errors: ['malformed_address', 'invalid_argument', 'too_many', 'index_off', 'not_yet_indexed'],
    isBulk: true,
  },
  openApi: {
    path: '/openapi.json',
    operation: 'getOpenApiDocument',
    summary: 'This document.',
    parameters: [],
    answer: 'OpenApiDocument',
    errors: [],
  },
} as const satisfies Readonly<Record<string, RouteDeclaration>>;
