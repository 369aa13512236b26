import { parseIdentifier, type Identifier } from '../../flow/index.js';
import { quoted } from '../../runtime/index.js';
import { ApiError, invalidArgument as invalid } from './ApiError.js';
import { provenOnly, type IndexedRange } from './indexedRange.js';

/** Heights or ids per request, limited as on access nodes. */
export const MAX_ITEMS = 50;
/** Paths that `select` may name. */
export const MAX_SELECT_PATHS = 50;

/** A query parameter as it arrived: absent, once, or several times. */
export type QueryValue = string | readonly string[] | undefined;
export type Query = Readonly<Record<string, QueryValue>>;

/** A requested height: a number, or one of the two heads; `latest` means `final`. */
export type HeightTerm = number | 'final' | 'sealed';

/**
 * The values of a parameter that takes a list, in each form that access nodes accept: `a,b`, or `[a b]` as clients generated from
 * Flow's OpenAPI document send it. Repeating the parameter adds to it.
 */
export function list(value: QueryValue): string[] {
  return [value ?? []].flat().flatMap((text) => {
    const bare = text.trim().replace(/^\[/, '').replace(/\]$/, '');
    const items = bare.split(bare.includes(',') ? ',' : /\s/);
    return items.map((item) => item.trim()).filter((item) => item !== '');
  });
}

/** The value of a parameter that may be given once; empty if absent. Expected errors: ApiError (400). */
export function single(query: Query, name: string): string {
  const value = query[name] ?? '';
  if (typeof value === 'string') return value;
  throw invalid(`give ${name} once`);
}

/** The value of a parameter that takes one of these words; the first if absent. Expected errors: ApiError (400). */
export function word<const Word extends string>(
  query: Query,
  name: string,
  words: readonly [Word, ...Word[]],
): Word {
  const given = single(query, name);
  const known = given === '' ? words[0] : words.find((one) => one === given);
  if (known !== undefined) return known;
  throw invalid(`invalid ${name}: expected ${words.join(' or ')}, got ${quoted(given)}`);
}

/** Whether `finality=proven` asks for proven blocks only. Expected errors: ApiError (400). */
export function wantsProven(query: Query): boolean {
  return word(query, 'finality', ['reported', 'proven']) === 'proven';
}

/** Returns the range that a query may read: with `finality=proven`, its proven part. Expected errors: ApiError (400). */
export function rangeFor(query: Query, status: { readonly range: () => IndexedRange }): () => IndexedRange {
  const isProvenOnly = wantsProven(query);
  return () => (isProvenOnly ? provenOnly(status.range()) : status.range());
}

/** Expected errors: ApiError (400). */
export function parseId(text: string): Identifier {
  const id = parseIdentifier(text);
  if (id !== undefined) return id;
  const message = `invalid ID format: expected 64 hexadecimal digits, got ${quoted(text)}`;
  throw new ApiError(400, 'malformed_id', message);
}

/** Ids of a list, each once. Expected errors: ApiError (400). */
export function parseIds(text: string): Identifier[] {
  const items = list(text);
  refuseTooMany(items.length, 'IDs');
  if (items.length === 0) return [parseId(text)];
  return [...new Set(items.map(parseId))];
}

/** A height (decimal), or an id (64 hex digits), by default of a block. Expected errors: ApiError (400). */
export function parseBlockKey(text: string, anId = 'a block ID'): Identifier | number {
  const key = parseHeight(text) ?? parseIdentifier(text);
  if (key !== undefined) return key;
  const message = `expected a height or ${anId} of 64 hexadecimal digits, got ${quoted(text)}`;
  throw new ApiError(400, 'malformed_id', message);
}

/** The one block that `block_id` or `block_height` names; by default the newest sealed one. Expected errors: ApiError (400). */
export function parseBlockOf(query: Query): string {
  const ids = list(query['block_id']);
  const heights = list(query['block_height']);
  if (ids.length + heights.length > 1) {
    throw invalid(
      'give one block, by block_id or by block_height; a transaction by its own ID is at /v1/transactions/{id}',
    );
  }
  const [[id], [height]] = [ids, heights];
  if (id !== undefined) return parseId(id);
  return height === undefined ? 'sealed' : String(heightTerm('block_height', height));
}

/**
 * The id of a transaction. Access nodes also find a scheduled transaction by its number, which an index does not know. Expected
 * errors: ApiError (400).
 */
export function parseTransactionId(text: string): Identifier {
  if (!/^\d{1,20}$/.test(text)) return parseId(text);
  const message = `this index does not know scheduled transactions by number; give its ID instead of ${text}, or ask an access node`;
  throw new ApiError(400, 'not_served', message);
}

export function headTerm(text: string): 'final' | 'sealed' | undefined {
  if (text === 'final' || text === 'latest') return 'final';
  return text === 'sealed' ? text : undefined;
}

/** The form of a height, for error messages. */
export const A_HEIGHT = `decimal height up to ${Number.MAX_SAFE_INTEGER}`;

/** A decimal height as Flow writes it. */
export function parseHeight(text: string): number | undefined {
  if (!/^\d{1,16}$/.test(text)) return undefined;
  const height = Number(text);
  return Number.isSafeInteger(height) ? height : undefined;
}

/** The height that a parameter names; `undefined` if absent. Expected errors: ApiError (400). */
export function heightIn(query: Query, name: string): number | undefined {
  const given = list(query[name]);
  const [text] = given;
  if (text === undefined) return undefined;
  const height = parseHeight(text);
  if (height !== undefined && given.length === 1) return height;
  throw invalid(`invalid ${name}: expected one ${A_HEIGHT}, got ${quoted(given.join())}`);
}

/**
 * The heights that the query of `/v1/blocks` names, and whether it names a head. Expected errors: ApiError (400), and those of
 * `heightOf`.
 */
export function parseHeights(query: Query, heightOf: (term: HeightTerm) => number) {
  const heights = list(query['height']);
  const start = list(query['start_height']);
  const end = list(query['end_height']);
  const isWord = (term: HeightTerm): boolean => typeof term === 'string';
  if (heights.length > 0) {
    if (start.length > 0 || end.length > 0)
      throw invalid('give either height, or start_height and end_height, not both');
    refuseTooMany(heights.length, 'heights');
    const terms = [...new Set(heights.map((text) => heightTerm('height', text)))];
    if (terms.length > 1 && terms.some(isWord))
      throw invalid('height takes final, sealed or latest only alone, not in a list');
    return { heights: terms.map(heightOf), namesHead: terms.some(isWord) };
  }
  const [[startText], [endText]] = [start, end];
  if (start.length !== 1 || end.length !== 1 || startText === undefined || endText === undefined)
    throw invalid('give either height (a list, final, sealed or latest), or start_height and end_height');
  const ends = [heightTerm('start_height', startText), heightTerm('end_height', endText)];
  const [from = 0, to = 0] = ends.map(heightOf);
  if (from > to) throw invalid(`start_height ${from} is above end_height ${to}`);
  const count = to - from + 1;
  refuseTooMany(count, 'heights');
  return { heights: Array.from({ length: count }, (_, index) => from + index), namesHead: ends.some(isWord) };
}

/**
 * The served names in `expand`. Names that only access nodes serve (`elsewhere`) are refused, so that callers do not wait
 * for a field that never comes; unknown ones are ignored, as on nodes. Expected errors: ApiError (400).
 */
export function parseExpand(
  query: Query,
  served: readonly string[],
  elsewhere: readonly string[] = [],
): ReadonlySet<string> {
  const names = list(query['expand']);
  const other = names.find((name) => elsewhere.includes(name));
  if (other !== undefined) {
    const offer = served.length === 0 ? 'nothing can be expanded here' : `served: ${served.join(', ')}`;
    throw new ApiError(400, 'not_served', `this index does not serve expand=${quoted(other)} (${offer})`);
  }
  return new Set(names.filter((name) => served.includes(name)));
}

/** The paths in `select`; none selects everything. Expected errors: ApiError (400). */
export function parseSelect(query: Query): readonly string[] {
  const paths = list(query['select']);
  if (paths.length > MAX_SELECT_PATHS) throw invalid(`at most ${MAX_SELECT_PATHS} fields can be selected`);
  return paths;
}

function heightTerm(name: string, text: string): HeightTerm {
  const term = headTerm(text) ?? parseHeight(text);
  if (term !== undefined) return term;
  throw invalid(`invalid ${name}: expected a ${A_HEIGHT}, final, sealed or latest, got ${quoted(text)}`);
}

function refuseTooMany(count: number, what: string): void {
  if (count <= MAX_ITEMS) return;
  throw new ApiError(
    400,
    'too_many',
    `at most ${MAX_ITEMS} ${what} can be requested at a time, got ${count}`,
  );
}
