import { allReadinessCodes, endpointStates } from '../../observability/index.js';
import { accountRoleNames, MAX_PAGE_ITEMS } from '../documents/accountTransactions.js';
import type {
  AccountTransactionDocument,
  AccountTransactionsDocument,
} from '../documents/accountTransactions.js';
import type { HeightRange } from '../../storage/index.js';
import type { HeightDocument, RewindDocument } from '../documents/changeDocuments.js';
import type { ApiErrorBody } from '../view/ApiError.js';
import { errorReasons } from '../view/ApiError.js';
import { explainKinds, explainStages } from '../documents/explanation.js';
import type { ExplainDocument } from '../documents/explanation.js';
import type { ExportedBlock, ExportedTransaction } from '../documents/exportPage.js';
import { MAX_PLACES } from '../documents/lookupDocument.js';
import type { BlockDocument, CollectionDocument, TransactionDocument } from '../documents/lookupDocument.js';
import type { CollectionBody } from '../json/collection.js';
import type { RestTransactionBody } from '../json/transaction.js';
import type {
  BackfillPlanStatus,
  BackfillRangeStatus,
  BackfillStatus,
  CallStatus,
  EndpointStatus,
  StatusDocument,
} from '../view/statusDocument.js';
import { MAX_MISSING_SHOWN } from '../view/heightWork.js';
import type { MissingDocument, NodeDocument, NodeFailures, WorkDocument } from '../view/heightWork.js';
import { transactionBodyFields } from './flowShapes.js';
import {
  address,
  amount,
  amountOrNull,
  arrayOf,
  count,
  countOrNull,
  described,
  flag,
  identifier,
  object,
  oneOfWords,
  ref,
  text,
  time,
} from './schema.js';
import type { Schema } from './schema.js';

const edges = { firstIndexed: countOrNull, latestIndexed: countOrNull, head: countOrNull } as const;
const heightRange = { from: count, to: count } as const;
const coverage = arrayOf(object<HeightRange>(heightRange));
const collectionPlace = { height: count, collection_index: count } as const;
const transactionPlace = { ...collectionPlace, transaction_index: count } as const;

const textOrNull = { type: ['string', 'null'] } as const;

const executionDataStatus = object<StatusDocument['sources']['edi']>({
  state: oneOfWords('off', 'connecting', 'following', 'paused', 'unavailable'),
  endpoint: textOrNull,
  height: countOrNull,
  ageSeconds: amountOrNull,
  reason: textOrNull,
});

const oldestMissing = orNull(
  object<NonNullable<StatusDocument['oldestMissing']>>({ height: count, missing: count, ageSeconds: amount }),
);

const waitingFor = orNull(
  object<NonNullable<StatusDocument['waitingFor']>>({ height: count, message: text, ageSeconds: amount }),
);

const endpoint = object<EndpointStatus>({
  name: text,
  state: oneOfWords(...endpointStates),
  reason: textOrNull,
  sinceSeconds: amountOrNull,
  calls: arrayOf(
    object<CallStatus>({
      method: text,
      state: oneOfWords('failing', 'set_aside'),
      reason: text,
      count,
      sinceSeconds: amount,
    }),
  ),
});

const reasons = arrayOf(
  object<StatusDocument['reasons'][number]>(
    { code: oneOfWords(...allReadinessCodes), message: text, height: count, sinceSeconds: amount },
    ['height'],
  ),
);

const backfill = object<BackfillStatus>({
  missingHeights: count,
  rate: amount,
  eta: amountOrNull,
  plans: arrayOf(
    object<BackfillPlanStatus>({
      ...heightRange,
      id: count,
      order: oneOfWords('newest', 'oldest'),
      state: oneOfWords('active', 'paused'),
      missingHeights: count,
    }),
  ),
  ranges: arrayOf(
    object<BackfillRangeStatus>({
      ...heightRange,
      state: oneOfWords('waiting', 'running', 'failed', 'disputed'),
      next: count,
      rate: amount,
      eta: amountOrNull,
      failures: count,
      reason: textOrNull,
      waitingFor,
    }),
  ),
  unserved: coverage,
});

const missingCollection = object<MissingDocument>({
  collectionId: identifier,
  isUnderWay: flag,
  attempts: count,
  notFound: count,
  lastNode: textOrNull,
  lastError: textOrNull,
  lastAskedAt: textOrNull,
  failures: arrayOf(object<NodeFailures>({ node: text, count, lastError: text, lastAt: time })),
});

const work = object<WorkDocument>({
  ageSeconds: amount,
  collections: count,
  missing: count,
  missingCollections: arrayOf(missingCollection, MAX_MISSING_SHOWN),
  executionData: textOrNull,
  dispute: textOrNull,
});

/** The responses that Flow's REST does not have. */
export const daemonShapes = {
  Error: object<ApiErrorBody>(
    {
      code: described('The HTTP status.', count),
      message: described('One sentence for humans.', text),
      reason: described('For machines.', oneOfWords(...errorReasons)),
      ...edges,
      coverage: described('The heights that are indexed.', coverage),
    },
    ['firstIndexed', 'latestIndexed', 'head', 'coverage'],
  ),
  Status: object<StatusDocument>({
    network: text,
    chainId: text,
    version: text,
    instance: text,
    ...edges,
    coverage,
    backfill,
    sealed: countOrNull,
    lag: countOrNull,
    headAgeSeconds: amountOrNull,
    headConfirmedSeconds: amountOrNull,
    rate: amount,
    eta: amountOrNull,
    window: object<StatusDocument['window']>({
      heights: count,
      upperBound: countOrNull,
      inFlight: count,
      bytesInFlight: count,
      bytesLimit: count,
    }),
    sources: object<StatusDocument['sources']>({
      requester: object<StatusDocument['sources']['requester']>({
        state: oneOfWords('off', 'idle', 'waiting', 'asking'),
        inFlight: count,
        missing: count,
      }),
      edi: executionDataStatus,
    }),
    endpoints: arrayOf(endpoint),
    waitingFor,
    oldestMissing,
    accountIndex: object<StatusDocument['accountIndex']>({
      state: oneOfWords('off', 'building', 'stopped', 'complete'),
      coveredFrom: countOrNull,
      missingHeights: countOrNull,
    }),
    ready: flag,
    reasons,
    uptimeSeconds: amount,
  }),
  LookupDocument: {
    oneOf: [ref('BlockDocument'), ref('CollectionDocument'), ref('TransactionDocument')],
  },
  BlockDocument: object<BlockDocument>({
    kind: oneOfWords('block'),
    id: identifier,
    height: count,
    header: ref('BlockHeader'),
    payload: ref('BlockPayload'),
    collections: arrayOf(
      object<BlockDocument['collections'][number]>({ collection_id: identifier, transaction_count: count }),
    ),
  }),
  CollectionDocument: object<CollectionDocument>({
    kind: oneOfWords('collection'),
    id: identifier,
    ...collectionPlace,
    block_id: identifier,
    places: arrayOf(object<CollectionDocument['places'][number]>(collectionPlace), MAX_PLACES),
    more_places: flag,
    collection: object<CollectionBody>({ id: identifier, transactions: arrayOf(ref('TransactionBody')) }),
  }),
  TransactionDocument: object<TransactionDocument>({
    kind: oneOfWords('transaction'),
    id: identifier,
    ...transactionPlace,
    block_id: identifier,
    collection_id: identifier,
    places: arrayOf(object<TransactionDocument['places'][number]>(transactionPlace), MAX_PLACES),
    more_places: flag,
    transaction: ref('TransactionBody'),
  }),
  AccountTransactions: object<AccountTransactionsDocument>({
    kind: oneOfWords('account'),
    address,
    covered: described(
      'The heights that the index covers, both ends included; none while the first is above the second.',
      object<AccountTransactionsDocument['covered']>({ from: count, to: { type: 'integer' } }),
    ),
    complete: described('False: the index does not reach down to the first indexed height yet.', flag),
    transactions: arrayOf(
      object<AccountTransactionDocument>({
        id: identifier,
        ...transactionPlace,
        block_id: identifier,
        collection_id: identifier,
        roles: arrayOf(oneOfWords(...accountRoleNames), accountRoleNames.length),
      }),
      MAX_PAGE_ITEMS,
    ),
    next_cursor: described('Where older ones follow, also when this page holds none; null: there are none.', {
      type: ['string', 'null'],
    }),
  }),
  TransactionBody: object<RestTransactionBody>(transactionBodyFields),
  Explanation: object<ExplainDocument>({
    key: text,
    kind: oneOfWords(...explainKinds),
    stage: oneOfWords(...explainStages),
    summary: described('One or two sentences for humans.', text),
    height: countOrNull,
    blockId: textOrNull,
    ...edges,
    coverage,
    sealed: countOrNull,
    work: described('While the height is worked on.', orNull(work)),
    holdingUp: described('What the lowest unindexed height waits for.', waitingFor),
    sources: orNull(
      object<NonNullable<ExplainDocument['sources']>>({
        nodes: arrayOf(
          object<NodeDocument>({ name: text, state: text, servesHeight: flag, trouble: textOrNull }),
        ),
        executionData: executionDataStatus,
      }),
    ),
    reasons,
  }),
  ExportLine: described('One line.', { oneOf: [ref('ExportedBlock'), ref('ExportedTransaction')] }),
  ExportedBlock: object<ExportedBlock>({
    kind: oneOfWords('block'),
    height: count,
    block_id: identifier,
    parent_id: identifier,
    timestamp: time,
    collections: arrayOf(
      object<ExportedBlock['collections'][number]>({ collection_id: identifier, transaction_count: count }),
    ),
  }),
  ExportedTransaction: object<ExportedTransaction>({
    kind: oneOfWords('transaction'),
    height: count,
    block_id: identifier,
    timestamp: time,
    collection_id: identifier,
    collection_index: count,
    transaction_index: count,
    transaction: ref('TransactionBody'),
  }),
  FeedEvent: {
    oneOf: [ref('IndexedHeight'), ref('Rewind'), ref('Error')],
  },
  IndexedHeight: object<HeightDocument>({
    height: count,
    block_id: identifier,
    parent_id: identifier,
    timestamp: time,
    collections: arrayOf(
      object<HeightDocument['collections'][number]>({ collection_id: identifier, transaction_count: count }),
    ),
    sealed: described('Known to be sealed when this was sent.', flag),
  }),
  Rewind: object<RewindDocument>({
    height: described('Discard everything above.', count),
    block_id: { ...identifier, type: ['string', 'null'] },
  }),
  OpenApiDocument: described('This document: OpenAPI 3.1.', { type: 'object' }),
} as const;

function orNull(schema: Schema): Schema {
  return { ...schema, type: ['object', 'null'] };
}
