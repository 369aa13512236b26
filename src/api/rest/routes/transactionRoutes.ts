import { restTransactions } from '../../json/collection.js';
import { restTransaction, transactionSchema } from '../../json/transaction.js';
import { anId, idErrors, inPath, inQuery, select } from '../../openapi/route.js';
import type { Route } from '../../openapi/route.js';
import * as t from '../../schema.js';
import type { IndexView } from '../../view/IndexView.js';
import { parseBlockOf, parseExpand, parseTransactionId } from '../../view/queryParameters.js';
import { kept } from './keptResponse.js';

/** What access nodes can expand, but an index cannot. */
const RESULT = 'result';

/** Transactions. `now`: the index at this moment. */
export function transactionRoutes(now: () => IndexView): readonly Route[] {
  return [
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
        const key = typeof requested === 'object' ? requested.id : view.heightOf(requested);
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
  ];
}
