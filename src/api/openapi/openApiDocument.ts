import type { ApiErrorReason } from '../view/ApiError.js';
import type { Parameter, RouteDeclaration } from './routeTable.js';
import { daemonShapes } from './daemonShapes.js';
import { flowShapes } from './flowShapes.js';
import { oneOfWords, ref } from './schema.js';
import type { Schema } from './schema.js';

/** The HTTP status of each refusal reason, and when it is given. */
const refusals: Readonly<Record<ApiErrorReason, { readonly status: number; readonly when: string }>> = {
  not_yet_indexed: { status: 404, when: 'above the latest indexed height, or nothing is indexed yet' },
  below_first_indexed: { status: 404, when: 'below the first indexed height' },
  hole: { status: 404, when: 'missing between heights that are indexed' },
  unknown_id: { status: 404, when: 'nothing with this id in the indexed heights' },
  malformed_id: { status: 400, when: 'the id is not 64 hexadecimal digits' },
  malformed_address: { status: 400, when: 'the address is not 16 hexadecimal digits' },
  index_off: { status: 404, when: 'the account index is off' },
  invalid_argument: { status: 400, when: 'a parameter cannot be read, is missing, or contradicts another' },
  too_many: { status: 400, when: 'more heights or ids than one request may name' },
  not_served: {
    status: 400,
    when: 'something that only access nodes have: an expansion, or a scheduled transaction by number',
  },
  upstream_unreachable: { status: 503, when: 'a forwarded request reaches no access node' },
  bad_request: { status: 400, when: 'the path is not well-formed' },
  method_not_allowed: { status: 405, when: 'another method than GET and HEAD' },
  origin_refused: { status: 403, when: 'a page of an origin that api.corsOrigins does not name' },
  too_large: { status: 414, when: 'the URL is too long' },
  rate_limited: { status: 429, when: 'more requests than one address, or one connection, may send' },
  storage: { status: 500, when: 'the stored record is damaged or cannot be read' },
  overdue: { status: 408, when: 'the call did not come to its end in time' },
  indexer_silent: {
    status: 503,
    when: 'the thread that indexes, which alone knows the answer, does not give it now',
  },
  stopping: { status: 503, when: 'the daemon is being stopped' },
  internal: { status: 500, when: 'a bug' },
  busy: { status: 503, when: 'too many large answers wait for their callers' },
};

/** Reasons for which any request may be refused. */
const commonReasons: readonly ApiErrorReason[] = [
  'bad_request',
  'too_large',
  'rate_limited',
  'storage',
  'internal',
  'busy',
];

interface Response {
  readonly description: string;
  readonly headers?: Readonly<Record<string, { readonly description: string; readonly schema: Schema }>>;
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>;
}

/** The OpenAPI 3.1 document of these routes. */
export function openApiDocument(
  routes: readonly RouteDeclaration[],
  { version }: { readonly version: string },
) {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Flow collection indexer',
      version,
      description:
        'Blocks, collections and transactions of a Flow chain, complete and verified, in the shapes of Flow’s REST interface. Execution results, events and accounts are not indexed. With select, an answer holds fewer fields than its schema.',
    },
    servers: [{ url: '/' }],
    paths: Object.fromEntries(routes.map((route) => [route.path, { get: operation(route) }])),
    components: { schemas: { ...flowShapes, ...daemonShapes } },
  };
}

const JSON_MEDIA_TYPE = 'application/json';

function operation(route: RouteDeclaration) {
  const { operation: operationId, summary, parameters, errors, isStream = false } = route;
  return {
    operationId,
    summary,
    parameters: parameters.map(parameter),
    responses: {
      ...(isStream ? streamed(route) : answered(route)),
      ...refusalsOf([...errors, ...commonReasons]),
    },
  };
}

function answered({
  summary,
  answer,
  mediaType = JSON_MEDIA_TYPE,
}: RouteDeclaration): Record<string, Response> {
  return {
    200: {
      description: summary,
      headers: {
        ETag: { description: 'Names an answer that may be kept.', schema: { type: 'string' } },
        'Cache-Control': {
          description: 'Immutable for what can never change, else no-cache or no-store.',
          schema: { type: 'string' },
        },
      },
      content: { [mediaType]: { schema: ref(answer) } },
    },
    304: { description: 'The caller holds this answer already (If-None-Match).' },
  };
}

/** The schema is that of one event's data. */
function streamed({ summary, answer }: RouteDeclaration): Record<string, Response> {
  return { 200: { description: summary, content: { 'text/event-stream': { schema: ref(answer) } } } };
}

function parameter({ name, in: place, isRequired, schema }: Parameter) {
  const { description, ...rest } = schema;
  return {
    name,
    in: place,
    required: isRequired,
    ...(description === undefined ? {} : { description }),
    schema: rest,
  };
}

/** One response per HTTP status, with its reasons. */
function refusalsOf(reasons: readonly ApiErrorReason[]): Record<string, Response> {
  const byStatus = new Map<number, ApiErrorReason[]>();
  for (const reason of reasons) {
    const { status } = refusals[reason];
    byStatus.set(status, [...(byStatus.get(status) ?? []), reason]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, given]) => [
      String(status),
      {
        description: given.map((reason) => `${reason}: ${refusals[reason].when}`).join('; '),
        content: {
          'application/json': {
            schema: { allOf: [ref('Error'), { properties: { reason: oneOfWords(...given) } }] },
          },
        },
      },
    ]),
  );
}
