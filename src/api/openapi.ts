import type { HttpRoute } from './http/types.js';
import * as T from './Schema.js';
import { MAX_SELECT_PATHS } from './view/queryParameters.js';
import { errorSchema, refusals, type ApiErrorReason } from './view/ApiError.js';

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly description: string;
  readonly schema: T.Schema;
}

/** A route with its description, from which the OpenAPI document and the text of a 404 are generated. */
export interface Route extends HttpRoute {
  /** A name for generated clients. */
  readonly operation: string;
  readonly summary: string;
  readonly parameters: readonly Parameter[];
  /** For server-sent events, the schema of their data. */
  readonly response: T.Schema;
  /** Media type of the response. Default: JSON. */
  readonly mediaType?: string;
  /** Refusal reasons besides those that any request may get. */
  readonly errors: readonly ApiErrorReason[];
}

/** Text, unless it has a schema. */
export function inPath(name: string, description: string, schema: T.Schema = T.text): Parameter {
  return { name, in: 'path', required: true, description, schema };
}

export function inQuery(name: string, description: string, schema: T.Schema = T.text): Parameter {
  return { name, in: 'query', required: false, description, schema };
}

export const select = inQuery(
  'select',
  `Keeps only these fields: up to ${MAX_SELECT_PATHS} comma-separated paths; dots lead into objects, arrays are passed through.`,
);

export function expand(...names: readonly string[]): Parameter {
  const what = 'Includes this in the response instead of a link. Unknown names are ignored.';
  return inQuery('expand', what, T.words(...names));
}

export const finality = inQuery(
  'finality',
  'proven: only blocks that certificates of the consensus nodes prove final; heads and ranges end there, and a stream waits for them.',
  T.words('reported', 'proven'),
);

/** An id as a caller may write it. */
export const anId = T.textOf('^(0x)?[0-9a-fA-F]{64}$');
export const anAddress = T.textOf('^(0x)?[0-9a-fA-F]{16}$');
export const byId = inPath('id', '64 hexadecimal digits, with or without 0x.', anId);

export const heightErrors = ['not_yet_indexed', 'below_first_indexed', 'hole'] as const;
export const idErrors = ['malformed_id', 'not_yet_indexed', 'unknown_id'] as const;

/** The response of `/openapi.json` itself. */
export const openApiSchema = new T.Schema({ type: 'object' })
  .note('This document: OpenAPI 3.1.')
  .named('OpenApiDocument');

const JSON_MEDIA_TYPE = 'application/json';
const BEARER = 'bearer';
const bearer = { type: 'http', scheme: 'bearer' } as const;

/** Reasons for which any request may be refused. */
const commonReasons: readonly ApiErrorReason[] = [
  ...(['bad_request', 'too_large', 'rate_limited', 'healing', 'storage', 'internal', 'busy'] as const),
];

interface Response {
  readonly description: string;
  readonly headers?: Readonly<Record<string, { readonly description: string; readonly schema: T.Keywords }>>;
  readonly content?: Readonly<Record<string, { readonly schema: T.Keywords }>>;
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
  const schemas: Record<string, T.Keywords> = {};
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
function withoutTargets(value: unknown, components: Record<string, T.Keywords>): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutTargets(item, components));
  if (typeof value !== 'object' || value === null) return value;
  const { target, ...rest } = value as T.Keywords;
  const name = rest.$ref?.slice(T.COMPONENTS.length);
  if (target !== undefined && name !== undefined && !(name in components)) {
    components[name] = withoutTargets(target, components) as T.Keywords;
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
    parameters: parameters.map((parameter) => ({ ...parameter, schema: parameter.schema.keywords })),
    ...(needsToken ? { security: [{ [BEARER]: [] }] } : {}),
    responses: {
      ...success(route),
      ...refusalsFor([...errors, ...commonReasons, ...(needsToken ? (['unauthorized'] as const) : [])]),
    },
  };
}

function success({ kind, mediaType = JSON_MEDIA_TYPE, response, summary }: Route): Record<string, Response> {
  const whole = { description: summary, content: { [mediaType]: { schema: response.keywords } } };
  if (kind === 'stream') return { 200: whole };
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

/** One response per HTTP status, with its reasons, and a default for refusals before routing and by nodes. */
function refusalsFor(reasons: readonly ApiErrorReason[]): Record<string, Response> {
  const withBody = (description: string, schema: T.Keywords): Response => ({
    description,
    content: { [JSON_MEDIA_TYPE]: { schema } },
  });
  const statusesOf = (reason: ApiErrorReason): readonly number[] => refusals[reason].statuses;
  const statuses = new Set(reasons.flatMap(statusesOf));
  const named = [...statuses].map((status) => {
    const given = reasons.filter((reason) => statusesOf(reason).includes(status));
    const { keywords } = T.words(...given);
    const schema = { allOf: [errorSchema.keywords, { properties: { reason: keywords } }] };
    const description = given.map((reason) => `${reason}: ${refusals[reason].when}`).join('; ');
    return [status, withBody(description, schema)] as const;
  });
  return { ...Object.fromEntries(named), default: withBody('Any other refusal.', errorSchema.keywords) };
}
