import { entityTag } from '../../http/responses.js';
import type { HttpResponse } from '../../http/types.js';
import { parseSelect } from '../../view/queryParameters.js';
import type { Query } from '../../view/queryParameters.js';

/** A small response that callers may keep, but must revalidate. */
export function tagged(what: string, body: unknown, contentType?: string): HttpResponse {
  const validity = { tag: entityTag(what, JSON.stringify(body)), isForever: false };
  return { body, validity, ...(contentType === undefined ? {} : { contentType }) };
}

/** A response that callers may keep: its tag follows from its subject and the selected parts. */
export function kept(
  subject: {
    readonly what: string;
    readonly ids: readonly string[];
    readonly query: Query;
    readonly expanded?: ReadonlySet<string>;
    readonly isForever: boolean;
  },
  build: () => unknown,
): HttpResponse {
  const { what, ids, query, expanded = [], isForever } = subject;
  const paths = parseSelect(query);
  return {
    validity: { tag: entityTag(what, ids, [...expanded], paths), isForever },
    build: () => (paths.length === 0 ? build() : selectFields(build(), paths)),
  };
}

/**
 * Keeps the named fields only, as Flow's `select` does: a path names a field with all below it, dots lead into objects,
 * arrays are passed through (`header.id`, `transactions.payer`). Objects and arrays of which nothing is left are left out
 * with their names, and an array of which one item is left without anything is empty as a whole.
 */
export function selectFields(value: unknown, paths: readonly string[]): unknown {
  if (Array.isArray(value)) {
    const selected = value.map((item) => selectFields(item, paths));
    return selected.some(isNothing) ? [] : selected;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const fields = Object.entries(value).flatMap(([key, field]: [string, unknown]) => {
    if (paths.includes(key)) return [[key, field]];
    const below = paths.flatMap((path) => (path.startsWith(`${key}.`) ? [path.slice(key.length + 1)] : []));
    const selected = selectFields(field, below);
    return isNothing(selected) ? [] : [[key, selected]];
  });
  return Object.fromEntries(fields);
}

function isNothing(value: unknown): boolean {
  return value === undefined || (typeof value === 'object' && Object.keys(value ?? {}).length === 0);
}
