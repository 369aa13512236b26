/**
 * A JSON Schema (the dialect of OpenAPI 3.1), and the type of the values it describes: both come from one declaration,
 * beside the code that builds the values.
 */
export interface Schema<T = unknown> {
  /** Never set: carries the type. */
  readonly describes?: T;
  /** What `$ref` refers to: becomes a component of the document. */
  readonly target?: Schema;
  readonly $ref?: string;
  readonly description?: string;
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean;
  readonly items?: Schema;
  readonly maxItems?: number;
  readonly enum?: readonly string[];
  readonly pattern?: string;
  readonly format?: string;
  readonly contentEncoding?: string;
  readonly minimum?: number;
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
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
  return {
    type: 'object',
    properties: { ...required, ...optional },
    required: Object.keys(required),
    additionalProperties: false,
  };
}

export function arrayOf<T>(items: Schema<T>, maxItems?: number): Schema<readonly T[]> {
  return { type: 'array', items, ...(maxItems === undefined ? {} : { maxItems }) };
}

export function oneOf<Choices extends readonly Schema[]>(
  ...choices: Choices
): Schema<Described<Choices[number]>> {
  return { oneOf: choices };
}

export function words<const Word extends string>(...allowed: readonly Word[]): Schema<Word> {
  return { type: 'string', enum: allowed };
}

export function orNull<T>(schema: Schema<T>): Schema<T | null> {
  return { ...schema, type: [schema.type ?? [], 'null'].flat() };
}

export const COMPONENTS = '#/components/schemas/';

/** A schema that has a name of its own in the document. */
export function named<T>(name: string, target: Schema<T>): Schema<T> {
  return { $ref: `${COMPONENTS}${name}`, target };
}

export function note<T>(description: string, schema: Schema<T>): Schema<T> {
  return { ...schema, description };
}

export const text: Schema<string> = { type: 'string' };
export const flag: Schema<boolean> = { type: 'boolean' };
export const count: Schema<number> = { type: 'integer', minimum: 0 };
export const amount: Schema<number> = { type: 'number', minimum: 0 };
export const identifier: Schema<string> = { type: 'string', pattern: '^[0-9a-f]{64}$' };
export const address: Schema<string> = { type: 'string', pattern: '^[0-9a-f]{16}$' };
export const hexDigits: Schema<string> = { type: 'string', pattern: '^([0-9a-f]{2})*$' };
export const bytes: Schema<string> = { type: 'string', contentEncoding: 'base64' };
/** Flow's REST writes numbers as strings. */
export const decimal: Schema<string> = { type: 'string', pattern: '^[0-9]+$' };
export const time: Schema<string> = { type: 'string', format: 'date-time' };
/** A path of Flow's REST interface. */
export const link: Schema<string> = { type: 'string', pattern: '/v1/' };
/** Path under which a document links to itself. */
export const selfLink = object({ _self: link });
