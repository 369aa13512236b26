import type { HttpRoute } from '../http/types.js';
import * as t from '../schema.js';
import { MAX_SELECT_PATHS } from '../view/queryParameters.js';
import type { ApiErrorReason } from '../view/ApiError.js';

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly description: string;
  readonly schema: t.Schema;
}

/** A route with its description, from which the OpenAPI document and the text of a 404 are generated. */
export interface Route extends HttpRoute {
  /** A name for generated clients. */
  readonly operation: string;
  readonly summary: string;
  readonly parameters: readonly Parameter[];
  /** For server-sent events, the schema of their data. */
  readonly response: t.Schema;
  /** Media type of the response. Default: JSON. */
  readonly mediaType?: string;
  /** Refusal reasons besides those that any request may get. */
  readonly errors: readonly ApiErrorReason[];
}

/** Text, unless it has a schema. */
export function inPath(name: string, description: string, schema: t.Schema = t.text): Parameter {
  return { name, in: 'path', required: true, description, schema };
}

export function inQuery(name: string, description: string, schema: t.Schema = t.text): Parameter {
  return { name, in: 'query', required: false, description, schema };
}

export const select = inQuery(
  'select',
  `Keeps only these fields: up to ${MAX_SELECT_PATHS} comma-separated paths; dots lead into objects, arrays are passed through.`,
);

export function expand(...names: readonly string[]): Parameter {
  const what = 'Includes this in the response instead of a link. Unknown names are ignored.';
  return inQuery('expand', what, t.words(...names));
}

export const finality = inQuery(
  'finality',
  'proven: only blocks that certificates of the consensus nodes prove final; heads and ranges end there, and a stream waits for them.',
  t.words('reported', 'proven'),
);

/** An id as a caller may write it. */
export const anId: t.Schema<string> = { type: 'string', pattern: '^(0x)?[0-9a-fA-F]{64}$' };
export const byId = inPath('id', '64 hexadecimal digits, with or without 0x.', anId);

export const heightErrors = ['not_yet_indexed', 'below_first_indexed', 'hole'] as const;
export const idErrors = ['malformed_id', 'not_yet_indexed', 'unknown_id'] as const;

/** The response of `/openapi.json` itself. */
export const openApiSchema = t.named(
  'OpenApiDocument',
  t.note('This document: OpenAPI 3.1.', { type: 'object' }),
);
