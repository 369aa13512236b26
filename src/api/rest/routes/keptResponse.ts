import { entityTag } from '../../http/responses/cacheHeaders.js';
import type { HttpResponse } from '../../http/types.js';
import { selectFields } from '../../json/selectFields.js';
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
