import { fieldsOf } from '../runtime/index.js';

export const COMPONENTS = '#/components/schemas/';

/** The keywords of a JSON Schema (the dialect of OpenAPI 3.1). */
export interface Keywords {
  /** What `$ref` refers to: becomes a component of the document. */
  readonly target?: Keywords;
  readonly $ref?: string;
  readonly description?: string;
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Keywords>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean;
  readonly items?: Keywords;
  readonly maxItems?: number;
  readonly enum?: readonly string[];
  readonly pattern?: string;
  readonly format?: string;
  readonly contentEncoding?: string;
  readonly minimum?: number;
  readonly oneOf?: readonly Keywords[];
  readonly allOf?: readonly Keywords[];
}

/** A JSON Schema, and the type of the values it describes: both come from one declaration, beside the code that builds the values. */
export class Schema<T = unknown> {
  /** Never set: carries the type. */
  declare readonly describes?: T;
  readonly keywords: Keywords;

  constructor(keywords: Keywords) {
    this.keywords = keywords;
  }

  /** Names it as a component of the document. */
  named(name: string): Schema<T> {
    return new Schema({ $ref: `${COMPONENTS}${name}`, target: this.keywords });
  }

  note(description: string): Schema<T> {
    return new Schema({ ...this.keywords, description });
  }

  get orNull(): Schema<T | null> {
    return new Schema({ ...this.keywords, type: [this.keywords.type ?? [], 'null'].flat() });
  }
}

/** The first field that a value lacks, such as one from another version of the program; `undefined` if it has all. */
export function missingIn(
  value: unknown,
  { items, properties = {}, required = [], target }: Keywords,
): string | undefined {
  if (value === null) return undefined;
  if (target !== undefined) return missingIn(value, target);
  if (Array.isArray(value)) return value.map((each) => missingIn(each, items ?? {})).find(Boolean);
  const fields = fieldsOf(value);
  const lacking = (name: string) =>
    fields[name] === undefined ? name : missingIn(fields[name], properties[name] ?? {});
  return required.map(lacking).find(Boolean);
}

/** The type that a schema describes. */
export type Described<S> = S extends Schema<infer T> ? T : never;

type Fields = Readonly<Record<string, Schema>>;
type AllOf<F extends Fields> = { readonly [Key in keyof F]: Described<F[Key]> };

/** An object with these fields, some of them optional, and no others. */
export function object<R extends Fields>(required: R): Schema<AllOf<R>>;
export function object<R extends Fields, O extends Fields>(
  required: R,
  optional: O,
): Schema<AllOf<R> & Partial<AllOf<O>>>;
export function object(required: Fields, optional: Fields = {}): Schema {
  const fields = Object.entries({ ...required, ...optional });
  return new Schema({
    type: 'object',
    properties: Object.fromEntries(fields.map(([name, { keywords }]) => [name, keywords])),
    required: Object.keys(required),
    additionalProperties: false,
  });
}

export function arrayOf<T>({ keywords }: Schema<T>, maxItems?: number): Schema<readonly T[]> {
  return new Schema({ type: 'array', items: keywords, ...(maxItems === undefined ? {} : { maxItems }) });
}

export function oneOf<Choices extends readonly Schema[]>(
  ...choices: Choices
): Schema<Described<Choices[number]>> {
  return new Schema({ oneOf: choices.map(({ keywords }) => keywords) });
}

export function words<const Word extends string>(...allowed: readonly Word[]): Schema<Word> {
  return new Schema({ type: 'string', enum: allowed });
}

export const text = new Schema<string>({ type: 'string' });
export const flag = new Schema<boolean>({ type: 'boolean' });
export const count = countFrom(0);
export const amount = new Schema<number>({ type: 'number', format: 'double', minimum: 0 });
export const identifier = textOf('^[0-9a-f]{64}$');
export const address = textOf('^[0-9a-f]{16}$');
export const hexDigits = textOf('^([0-9a-f]{2})*$');
export const bytes = new Schema<string>({ type: 'string', contentEncoding: 'base64' });
/** Flow's REST writes numbers as strings. */
export const decimal = textOf('^[0-9]+$');
export const time = new Schema<string>({ type: 'string', format: 'date-time' });
/** A path of Flow's REST interface. */
export const link = textOf('/v1/');
/** Path under which a document links to itself. */
export const selfLink = object({ _self: link });

/** Without a format, generated clients in Go, Java or C# take 32 bits. */
export function countFrom(minimum: number): Schema<number> {
  return new Schema({ type: 'integer', format: 'int64', minimum });
}

/** A text of this pattern. */
export function textOf(pattern: string): Schema<string> {
  return new Schema({ type: 'string', pattern });
}
