import { entityTag } from '../../http/ResponseWriter.js';
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
  return Array.isArray(value) ? selectItems(value, paths) : selectIn(value, paths);
}

function selectItems(items: readonly unknown[], paths: readonly string[]): readonly unknown[] {
  const selected = items.map((item) => selectFields(item, paths));
  return selected.some(isNothing) ? [] : selected;
}

/** `undefined`: not an object. */
function selectIn(value: unknown, paths: readonly string[]): object | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const kept: [string, unknown][] = [];
  for (const [key, field] of Object.entries(value)) {
    if (paths.includes(key)) {
      kept.push([key, field]);
      continue;
    }
    const below = paths.flatMap((path) => (path.startsWith(`${key}.`) ? [path.slice(key.length + 1)] : []));
    const selected = selectFields(field, below);
    if (!isNothing(selected)) kept.push([key, selected]);
  }
  return Object.fromEntries(kept);
}

function isNothing(value: unknown): boolean {
  return value === undefined || (typeof value === 'object' && Object.keys(value ?? {}).length === 0);
}
