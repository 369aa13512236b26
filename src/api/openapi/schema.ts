/** The part of JSON Schema (the dialect of OpenAPI 3.1) that the responses need. */
export interface Schema {
  readonly $ref?: string;
  readonly description?: string;
  readonly type?: SchemaType | readonly SchemaType[];
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
  readonly maximum?: number;
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
}

type SchemaType = 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean' | 'null';

/** Keys that may be absent from a `T`. */
type OptionalKey<T> = {
  [Key in keyof T & string]: Partial<Pick<T, Key>> extends Pick<T, Key> ? Key : never;
}[keyof T & string];

/** The schema of an interface: the compiler checks that both have the same fields. */
export function object<T extends object>(
  properties: Readonly<Record<keyof T & string, Schema>>,
  optional: readonly OptionalKey<T>[] = [],
): Schema {
  const mayBeAbsent: readonly string[] = optional;
  return {
    type: 'object',
    properties,
    required: Object.keys(properties).filter((key) => !mayBeAbsent.includes(key)),
    additionalProperties: false,
  };
}

export function arrayOf(items: Schema, maxItems?: number): Schema {
  return { type: 'array', items, ...(maxItems === undefined ? {} : { maxItems }) };
}

/** A schema of the document, by name. */
export function ref(name: string): Schema {
  return { $ref: `#/components/schemas/${name}` };
}

export function oneOfWords(...words: readonly string[]): Schema {
  return { type: 'string', enum: words };
}

export function described(description: string, schema: Schema): Schema {
  return { ...schema, description };
}

export const text: Schema = { type: 'string' };
export const flag: Schema = { type: 'boolean' };
export const count: Schema = { type: 'integer', minimum: 0 };
export const amount: Schema = { type: 'number', minimum: 0 };
export const countOrNull: Schema = { type: ['integer', 'null'] };
export const amountOrNull: Schema = { type: ['number', 'null'] };
export const identifier: Schema = { type: 'string', pattern: '^[0-9a-f]{64}$' };
/** As a caller may write it. */
export const givenIdentifier: Schema = { type: 'string', pattern: '^(0x)?[0-9a-fA-F]{64}$' };
export const address: Schema = { type: 'string', pattern: '^[0-9a-f]{16}$' };
export const hexDigits: Schema = { type: 'string', pattern: '^([0-9a-f]{2})*$' };
export const base64: Schema = { type: 'string', contentEncoding: 'base64' };
/** Flow's REST writes numbers as strings. */
export const decimal: Schema = { type: 'string', pattern: '^[0-9]+$' };
export const time: Schema = { type: 'string', format: 'date-time' };
export const link: Schema = { type: 'string', pattern: '^/v1/' };
