import type { StoredBlock } from '../../../storage/index.js';
import type { HttpResponse } from '../../http/types.js';
import { blockSchema, payloadSchema, restBlock, restBlockPayload } from '../../json/block.js';
import {
  anId,
  expand,
  finality,
  heightErrors,
  idErrors,
  inPath,
  inQuery,
  select,
} from '../../openapi/route.js';
import type { Route } from '../../openapi/route.js';
import * as t from '../../schema.js';
import type { IndexView } from '../../view/IndexView.js';
import {
  heightRange,
  MAX_ITEMS,
  parseExpand,
  parseHeights,
  parseId,
  parseIds,
} from '../../view/queryParameters.js';
import type { Query } from '../../view/queryParameters.js';
import { kept } from './keptResponse.js';

const PAYLOAD = 'payload';
/** What access nodes can expand, but an index cannot. */
const EXECUTION_RESULT = 'execution_result';

const blocks = t.named('Blocks', t.arrayOf(blockSchema, MAX_ITEMS));

/** Blocks. `now`: the index at this moment; of a query with `finality=proven`, the proven part of it. */
export function blockRoutes(now: (query?: Query) => IndexView): readonly Route[] {
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
        finality,
        expand(PAYLOAD),
        select,
      ],
      response: blocks,
      errors: ['invalid_argument', 'not_served', 'too_many', ...heightErrors],
      handle: async ({ query }) => {
        const view = now(query);
        const requested = parseHeights(query);
        const terms = 'start' in requested ? [requested.start, requested.end] : requested;
        const heights =
          'start' in requested
            ? heightRange(view.heightOf(requested.start), view.heightOf(requested.end))
            : requested.map((term) => view.heightOf(term));
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
        finality,
        expand(PAYLOAD),
        select,
      ],
      response: blocks,
      errors: ['invalid_argument', 'not_served', 'too_many', ...idErrors],
      handle: async ({ params, query }) =>
        blocksResponse(parseIds(params['ids'] ?? ''), { view: now(query), query, mayBeForever: true }),
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
  ];
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
  const areProven = stored.map(({ block }) => view.isProven(block.height));
  const areSealed = stored.map(({ block }) => view.isSealed(block.height));
  const subject = {
    what: 'blocks',
    query,
    expanded,
    ids: stored.map(
      ({ block }, index) =>
        `${block.id}${areSealed[index] === true ? ' sealed' : ''}${areProven[index] === true ? ' proven' : ''}`,
    ),
    // Where finality is proven, what is not proven yet may become so.
    isForever:
      mayBeForever &&
      !areSealed.includes(false) &&
      (view.range.proven === undefined || !areProven.includes(false)),
  };
  const sealed = view.range.sealed ?? undefined;
  const payload = expanded.has(PAYLOAD);
  return kept(subject, () =>
    stored.map(({ block }, index) =>
      restBlock(block.encoded, sealed, { payload, proven: areProven[index] === true }),
    ),
  );
}
