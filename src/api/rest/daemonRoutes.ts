import { quoted, type Clock } from '../../runtime/index.js';
import type { IndexReader } from '../../storage/index.js';
import { accountDocument, accountRoleNames } from '../documents/accountTransactions.js';
import { accountTransactionsSchema, DEFAULT_PAGE_ITEMS } from '../documents/accountTransactions.js';
import { MAX_PAGE_ITEMS } from '../documents/accountTransactions.js';
import { explainDocument } from '../documents/explainDocument.js';
import { explainSchema, type HeightWorkSource } from '../documents/explanation.js';
import { exportLine, exportPage, exportRange, NDJSON_TYPE, storedLine } from '../documents/exportPage.js';
import { storedPage } from '../documents/exportPage.js';
import { proofDocument, proofSchema } from '../documents/proofDocument.js';
import { isLookupKind, lookupDocument, lookupKinds, lookupSchema } from '../documents/lookupDocument.js';
import type { LookupKind } from '../documents/lookupDocument.js';
import type { ChangeFeed } from '../feed/changeFeed.js';
import { anAddress, finality, heightErrors, idErrors, inPath, inQuery, type Route } from '../openapi.js';
import * as T from '../Schema.js';
import { errorSchema, invalidArgument } from '../view/ApiError.js';
import { rangeFor, single, word } from '../view/queryParameters.js';
import { statusSchema, type StatusSource } from '../view/statusDocument.js';
import { eventStream, heightSchema, rewindSchema } from './eventStream.js';

export interface DaemonRoutesDependencies {
  readonly reader: IndexReader;
  readonly status: StatusSource;
  readonly work: HeightWorkSource;
  /** Its owner ends its streams before the server is closed. */
  readonly feed: ChangeFeed;
  readonly clock: Clock;
}

/** The routes that Flow's REST interface does not have. */
export function daemonRoutes(dependencies: DaemonRoutesDependencies): readonly Route[] {
  const { reader, status, work } = dependencies;
  const named = [
    inPath('kind', '', T.words(...lookupKinds)),
    inPath('key', 'An id; for a block also a height, final, sealed or latest.'),
  ];
  return [
    {
      path: '/status',
      operation: 'getStatus',
      summary: 'What the daemon is doing, and why.',
      parameters: [],
      response: statusSchema,
      errors: ['indexer_silent'],
      handle: async () => ({ body: await status.status() }),
    },
    {
      path: '/lookup/{kind}/{key}',
      operation: 'lookUp',
      summary: 'A block, collection or transaction with every place where it occurs.',
      parameters: [...named, finality],
      response: lookupSchema,
      errors: ['invalid_argument', ...idErrors, 'below_first_indexed', 'hole'],
      handle: async ({ params: { kind, key = '' }, query }) => {
        const known = kindNamed('look up', kind);
        return { body: await lookupDocument(reader, known, key, rangeFor(query, status)) };
      },
    },
    {
      path: '/proof/{kind}/{key}',
      operation: 'getProof',
      summary:
        'What proves a block, collection or transaction to a program that trusts one block id (docs/proofs.md).',
      parameters: [
        ...named,
        inQuery(
          'to',
          'The height of the block whose id is trusted. Default: none, the proof ends by a certificate; if that cannot be, that of the block in question.',
          T.decimal,
        ),
      ],
      response: proofSchema,
      errors: ['invalid_argument', ...idErrors, 'below_first_indexed', 'hole', 'unproven'],
      kind: 'bulk',
      handle: async ({ params: { kind, key = '' }, query }) => {
        const asked = { kind: kindNamed('prove', kind), key, to: single(query, 'to') };
        return { body: await proofDocument(reader, asked, () => status.range()) };
      },
    },
    {
      path: '/events',
      operation: 'followIndex',
      summary:
        'The change feed as server-sent events: one event named height for each height, ascending and without a gap, as soon as it can be read. The id of an event is its height and block; sent back as Last-Event-ID it resumes the stream, after an event named rewind where the client has other blocks than the index. An event named end says why a stream ends: with the reason rewound where the last event is no longer indexed.',
      parameters: [
        inQuery(
          'from',
          'The first height; it need not be indexed yet. Without it, the next one that is indexed.',
          T.decimal,
        ),
        inQuery(
          'wait',
          'true: at a height that is missing below the live range, wait until it is filled in. Otherwise the stream ends there, with the reason hole.',
          T.words('true', 'false'),
        ),
        finality,
        inQuery(
          'last_event_id',
          'The id of the last event received, for clients that cannot send the header, as a new EventSource. It takes precedence over from, and lastEventId, which polyfills add, over it.',
        ),
        { ...inQuery('Last-Event-ID', 'The same. It takes precedence over last_event_id.'), in: 'header' },
      ],
      response: T.oneOf(heightSchema, rewindSchema, errorSchema).named('FeedEvent'),
      mediaType: 'text/event-stream',
      kind: 'stream',
      errors: ['invalid_argument', ...heightErrors, 'stopping'],
      handle: (request) => eventStream(request, dependencies),
    },
    {
      path: '/explain/{key}',
      operation: 'explain',
      summary: 'Why a height, or the object with this ID, is or is not in the index.',
      parameters: [inPath('key', 'A height, or the ID of a block, collection or transaction.')],
      response: explainSchema,
      errors: ['malformed_id', 'indexer_silent'],
      handle: async ({ params }) => ({ body: await explainDocument(reader, params['key'] ?? '', work) }),
    },
    {
      path: '/export',
      operation: 'exportPage',
      summary: 'Blocks and their transactions as lines of JSON: one page of whole blocks from a height on.',
      parameters: [
        { ...inQuery('from', 'The first height.', T.decimal), required: true },
        inQuery('to', 'The last height; the page may end lower. Default: the latest indexed.', T.decimal),
        finality,
        inQuery(
          'form',
          'stored: a line for each block with all its bytes, for clients that keep their own index.',
          T.words('documents', 'stored'),
        ),
      ],
      response: T.oneOf(exportLine, storedLine),
      mediaType: NDJSON_TYPE,
      errors: ['invalid_argument', ...heightErrors],
      kind: 'bulk',
      handle: async ({ query }) => {
        const range = exportRange(query, rangeFor(query, status)());
        const page = word(query, 'form', ['documents', 'stored']) === 'stored' ? storedPage : exportPage;
        return { contentType: NDJSON_TYPE, body: await page(reader, range) };
      },
    },
    {
      path: '/accounts/{address}/transactions',
      operation: 'getAccountTransactions',
      summary: 'The transactions in which an account plays a role, newest first, page by page.',
      parameters: [
        inPath('address', '16 hexadecimal digits, with or without 0x.', anAddress),
        inQuery('role', 'All roles where none is named.', T.words(...accountRoleNames)),
        inQuery(
          'limit',
          `Transactions per page: ${DEFAULT_PAGE_ITEMS}, or up to ${MAX_PAGE_ITEMS}.`,
          T.decimal,
        ),
        inQuery('cursor', 'next_cursor of the previous page; without it, the newest.'),
        finality,
      ],
      response: accountTransactionsSchema,
      errors: ['malformed_address', 'invalid_argument', 'too_many', 'index_off', 'not_yet_indexed'],
      kind: 'bulk',
      handle: async ({ params: { address = '' }, query }) => {
        const the = (name: string): string => single(query, name);
        const request = { address, role: the('role'), limit: the('limit'), cursor: the('cursor') };
        return { body: await accountDocument(reader, request, rangeFor(query, status)()) };
      },
    },
  ];
}

function kindNamed(verb: string, word = ''): LookupKind {
  if (isLookupKind(word)) return word;
  throw invalidArgument(`cannot ${verb} ${quoted(word)}; known: ${lookupKinds.join(', ')}`);
}
