/** A JSON schema as parsed from a document. */
export type JsonSchema = Readonly<Record<string, unknown>>;

const known = new Set([
  ...['$ref', 'description', 'type', 'properties', 'required', 'additionalProperties', 'items', 'maxItems'],
  ...['enum', 'pattern', 'format', 'contentEncoding', 'minimum', 'maximum', 'oneOf', 'allOf'],
]);

/** What about a value does not match a schema, each with its place. A keyword that is not known here is a mistake of its own. */
export function violations(
  schema: JsonSchema,
  value: unknown,
  schemas: Readonly<Record<string, JsonSchema>>,
  place = '$',
): string[] {
  const found = Object.keys(schema)
    .filter((keyword) => !known.has(keyword))
    .map((keyword) => `${place}: the schema has the unknown keyword ${keyword}`);
  const check = (inner: JsonSchema, part: unknown, at: string): string[] =>
    violations(inner, part, schemas, at);

  const { $ref } = schema;
  if (typeof $ref === 'string') {
    const target = schemas[$ref.replace('#/components/schemas/', '')];
    return target === undefined
      ? [...found, `${place}: ${$ref} does not exist`]
      : [...found, ...check(target, value, place)];
  }
  for (const inner of (schema['allOf'] ?? []) as JsonSchema[]) found.push(...check(inner, value, place));
  const choices = schema['oneOf'] as JsonSchema[] | undefined;
  if (choices !== undefined) {
    const matching = choices.filter((choice) => check(choice, value, place).length === 0).length;
    if (matching !== 1) found.push(`${place}: matches ${matching} of ${choices.length} schemas, not one`);
  }
  const types = [schema['type'] ?? []].flat() as string[];
  if (types.length > 0 && !types.some((type) => isOfType(value, type))) {
    return [...found, `${place}: ${JSON.stringify(value)} is not ${types.join(' or ')}`];
  }
  if (typeof value === 'string') found.push(...ofText(schema, value, place));
  if (typeof value === 'number' && value < ((schema['minimum'] as number | undefined) ?? -Infinity)) {
    found.push(`${place}: ${value} is too small`);
  }
  if (Array.isArray(value)) {
    const items = schema['items'] as JsonSchema | undefined;
    if (items !== undefined)
      value.forEach((item, index) => found.push(...check(items, item, `${place}[${index}]`)));
    if (value.length > ((schema['maxItems'] as number | undefined) ?? Infinity)) {
      found.push(`${place}: has ${value.length} items`);
    }
  } else if (typeof value === 'object' && value !== null) {
    const properties = (schema['properties'] ?? {}) as Record<string, JsonSchema>;
    for (const name of (schema['required'] ?? []) as string[]) {
      if (!Object.hasOwn(value, name)) found.push(`${place}: ${name} is missing`);
    }
    for (const [name, field] of Object.entries(value)) {
      const inner = Object.hasOwn(properties, name) ? properties[name] : undefined;
      if (inner !== undefined) found.push(...check(inner, field, `${place}.${name}`));
      else if (schema['additionalProperties'] === false) found.push(`${place}: ${name} is not described`);
    }
  }
  return found;
}

function ofText(schema: JsonSchema, value: string, place: string): string[] {
  const found: string[] = [];
  const words = schema['enum'] as string[] | undefined;
  if (words !== undefined && !words.includes(value))
    found.push(`${place}: ${value} is none of ${words.join()}`);
  const pattern = schema['pattern'] as string | undefined;
  if (pattern !== undefined && !new RegExp(pattern, 'u').test(value)) {
    found.push(`${place}: ${value} does not match ${pattern}`);
  }
  if (schema['format'] === 'date-time' && Number.isNaN(Date.parse(value))) {
    found.push(`${place}: ${value} is not a time`);
  }
  if (schema['contentEncoding'] === 'base64' && Buffer.from(value, 'base64').toString('base64') !== value) {
    found.push(`${place}: ${value} is not base64`);
  }
  return found;
}

function isOfType(value: unknown, type: string): boolean {
  switch (type) {
    case 'null':
      return value === null;
    case 'array':
      return Array.isArray(value);
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value);
    case 'integer':
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}
