import { Ajv2020 } from 'ajv/dist/2020.js';

export type JsonSchema = Readonly<Record<string, unknown>>;

/** One for all: it takes its time to learn what a schema is. */
const ajv = new Ajv2020({
  ...{ allErrors: true, allowUnionTypes: true },
  formats: { 'date-time': (text: string) => !Number.isNaN(Date.parse(text)), int64: true, double: true },
});
ajv
  .removeKeyword('contentEncoding')
  .addKeyword({
    ...{ keyword: 'contentEncoding', type: 'string' },
    validate: (encoding: string, text: string) =>
      encoding === 'base64' && Buffer.from(text, 'base64').toString('base64') === text,
  });
// Where the references of the document lead.
ajv.addVocabulary(['components']);

/** What about a value does not match a schema, each with its place. A keyword that is not known is an error. */
export function violations(
  schema: JsonSchema,
  value: unknown,
  schemas: Readonly<Record<string, JsonSchema>>,
): string[] {
  const isValid = ajv.compile({ components: { schemas }, allOf: [schema] });
  if (isValid(value)) return [];
  return (isValid.errors ?? []).map(({ instancePath, message = '', params }) =>
    [instancePath, message, ...Object.values(params as Record<string, unknown>)].join(' '),
  );
}
