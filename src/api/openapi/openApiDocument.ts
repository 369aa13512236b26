import * as t from '../schema.js';
import { errorSchema, refusals } from '../view/ApiError.js';
import type { ApiErrorReason } from '../view/ApiError.js';
import type { Route } from './route.js';

const JSON_MEDIA_TYPE = 'application/json';
const BEARER = 'bearer';
const bearer = { type: 'http', scheme: 'bearer' } as const;

/** Reasons for which any request may be refused. */
const commonReasons: readonly ApiErrorReason[] = [
  ...(['bad_request', 'too_large', 'rate_limited', 'healing', 'storage', 'internal', 'busy'] as const),
];

interface Response {
  readonly description: string;
  readonly headers?: Readonly<Record<string, { readonly description: string; readonly schema: t.Schema }>>;
  readonly content?: Readonly<Record<string, { readonly schema: t.Schema }>>;
}

/** The OpenAPI 3.1 document of these routes. Schemas that have names become its components. */
export function openApiDocument(
  routes: readonly Route[],
  {
    needsToken = () => false,
    version,
  }: {
    /** Version of the program. */
    readonly version: string;
    /** Which routes need a bearer token here. Default: none. */
    readonly needsToken?: (route: Route) => boolean;
  },
) {
  const schemas: Record<string, t.Schema> = {};
  const paths = Object.fromEntries(
    routes.map((route) => [route.path, { get: operation(route, needsToken(route)) }]),
  );
  return {
    openapi: '3.1.0',
    info: {
      title: 'Flow collection indexer',
      version,
      description:
        'Blocks, collections and transactions of a Flow chain, complete and verified, in the shapes of Flow’s REST interface. Execution results, events and accounts are not indexed. With select, a response has fewer fields than its schema.',
    },
    // Relative to the address of the document, so that it also holds behind a proxy with a path prefix.
    servers: [{ url: './' }],
    paths: withoutTargets(paths, schemas) as typeof paths,
    components: { schemas, ...(routes.some(needsToken) ? { securitySchemes: { [BEARER]: bearer } } : {}) },
  };
}

/** Copies a value that contains schemas, and moves the targets of references to `components`. */
function withoutTargets(value: unknown, components: Record<string, t.Schema>): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutTargets(item, components));
  if (typeof value !== 'object' || value === null) return value;
  const { target, ...rest } = value as t.Schema;
  const name = rest.$ref?.slice(t.COMPONENTS.length);
  if (target !== undefined && name !== undefined && !(name in components)) {
    components[name] = withoutTargets(target, components) as t.Schema;
  }
  return Object.fromEntries(
    Object.entries(rest).map(([key, item]) => [key, withoutTargets(item, components)]),
  );
}

function operation(route: Route, needsToken: boolean) {
  const { operation: operationId, summary, parameters, errors } = route;
  return {
    operationId,
    summary,
    parameters,
    ...(needsToken ? { security: [{ [BEARER]: [] }] } : {}),
    responses: {
      ...success(route),
      ...refusalsFor([...errors, ...commonReasons, ...(needsToken ? (['unauthorized'] as const) : [])]),
    },
  };
}

function success({
  summary,
  response,
  mediaType = JSON_MEDIA_TYPE,
  isStream,
}: Route): Record<string, Response> {
  const whole = { description: summary, content: { [mediaType]: { schema: response } } };
  if (isStream === true) return { 200: whole };
  return {
    200: {
      ...whole,
      headers: {
        ETag: { description: 'Names a response that may be kept.', schema: { type: 'string' } },
        'Cache-Control': {
          description: 'Immutable for what can never change, else no-cache or no-store.',
          schema: { type: 'string' },
        },
      },
    },
    304: { description: 'The caller already has this response (If-None-Match).' },
  };
}

/** One response per HTTP status, with its reasons. */
function refusalsFor(reasons: readonly ApiErrorReason[]): Record<string, Response> {
  const statuses = new Set(reasons.map((reason) => refusals[reason].status));
  return Object.fromEntries(
    [...statuses].map((status) => {
      const given = reasons.filter((reason) => refusals[reason].status === status);
      const schema = { allOf: [errorSchema, { properties: { reason: t.words(...given) } }] };
      const description = given.map((reason) => `${reason}: ${refusals[reason].when}`).join('; ');
      return [String(status), { description, content: { [JSON_MEDIA_TYPE]: { schema } } }];
    }),
  );
}
