import {
  blockCollectionsSchema,
  collectionSchema,
  restBlockCollections,
  restCollection,
} from '../../json/collection.js';
import { anId, expand, idErrors, inPath, select } from '../../openapi/route.js';
import type { Route } from '../../openapi/route.js';
import * as t from '../../schema.js';
import type { IndexView } from '../../view/IndexView.js';
import { parseBlockKey, parseExpand, parseId } from '../../view/queryParameters.js';
import { kept } from './keptResponse.js';

const TRANSACTIONS = 'transactions';

/** Collections. `now`: the index at this moment. */
export function collectionRoutes(now: () => IndexView): readonly Route[] {
  return [
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
  ];
}
