import type { openApiDocument } from '../openapi/openApiDocument.js';
import { COMPONENTS } from '../schema.js';
import type { Schema } from '../schema.js';
import { html, page } from './Html.js';
import type { Html } from './Html.js';

type Document = ReturnType<typeof openApiDocument>;
type Operation = Document['paths'][string]['get'];
type Response = Operation['responses'][string];

const EMPTY = html``;

/** The page at `/docs`: the OpenAPI document for humans. */
export function docsPage({ info, paths, components }: Document): string {
  const routes = Object.entries(paths).map(([path, { get }]) => ({ path, operation: get }));
  const schemas = Object.entries<Schema>(components.schemas);
  return page(
    `${info.title}: HTTP routes`,
    html`<p><a href="/">Start</a> · <a href="/openapi.json">openapi.json</a></p>
      <h1>${info.title}: HTTP routes</h1>
      <p class="dim">${info.version}</p>
      <p>${info.description}</p>
      <h2>Routes</h2>
      ${routes.map(({ path, operation }) => routeOf(path, operation))}
      <h2>Shapes</h2>
      ${schemas.map(
        ([name, schema]) =>
          html`<details>
            <summary><code>${name}</code>${lineOf(schema.description)}</summary>
            <div id="${name}">${fieldsOf(schema)}</div>
          </details>`,
      )}`,
  );
}

function routeOf(path: string, { operationId, summary, parameters, responses }: Operation): Html {
  const rows = parameters.map(
    ({ name, in: place, required, description, schema }) =>
      html`<tr>
        <td><code>${name}</code></td>
        <td>${place}${required ? ', required' : ''}</td>
        <td>${description} ${isPlain(schema) ? EMPTY : shapeOf(schema)}</td>
      </tr>`,
  );
  const table = html`<table>
    <tr>
      <th>Parameter</th>
      <th>Where</th>
      <th>What</th>
    </tr>
    ${rows}
  </table>`;
  return html`<details>
    <summary><code>GET ${path}</code>${lineOf(summary)}</summary>
    <div id="${operationId}">
      ${rows.length === 0 ? EMPTY : table}
      <table>
        <tr>
          <th>Status</th>
          <th>Answer</th>
        </tr>
        ${Object.entries(responses).map(([status, response]) => responseOf(status, response))}
      </table>
    </div>
  </details>`;
}

function responseOf(status: string, { description, content = {} }: Response): Html {
  const isAnswer = status.startsWith('2');
  const media = Object.entries(content).map(
    ([type, { schema }]) => html`${shapeOf(schema)} as <code>${type}</code>`,
  );
  return html`<tr>
    <td>${status}</td>
    <td>${isAnswer ? media : description}</td>
  </tr>`;
}

function fieldsOf(schema: Schema): Html {
  const { properties } = schema;
  if (properties === undefined) return html`<p>${shapeOf(schema)}</p>`;
  const rows = Object.entries(properties).map(
    ([name, field]) =>
      html`<tr>
        <td><code>${name}</code></td>
        <td>
          ${shapeOf(field)}${schema.required?.includes(name) === true ? '' : ', may be absent'}${lineOf(
            field.description,
          )}
        </td>
      </tr>`,
  );
  return html`<table>
    ${rows}
  </table>`;
}

/** A schema in a few words, linked if it has a name. */
function shapeOf(schema: Schema): Html {
  const { $ref, type, items, oneOf, allOf, enum: words, format, contentEncoding, pattern } = schema;
  if ($ref !== undefined) {
    const name = $ref.slice(COMPONENTS.length);
    return html`<a href="#${name}">${name}</a>`;
  }
  if (oneOf !== undefined) return joined(oneOf.map(shapeOf), ' or ');
  if (allOf !== undefined) return joined(allOf.map(shapeOf), ' with ');
  if (words !== undefined) return html`<code>${words.join(' | ')}</code>`;
  if (items !== undefined) return html`list of ${shapeOf(items)}`;
  if (schema.properties !== undefined) {
    const fields = Object.entries(schema.properties).map(
      ([name, field]) => html`<code>${name}</code> (${shapeOf(field)})`,
    );
    const orNull = [type].flat().includes('null') ? ', or null' : '';
    return html`object of ${joined(fields, ', ')}${orNull}`;
  }
  const kind = [type ?? 'anything'].flat().join(' or ');
  const more = format ?? contentEncoding ?? pattern;
  return more === undefined ? html`${kind}` : html`${kind} <code>${more}</code>`;
}

/** A schema that needs no more than its description. */
function isPlain({ type, enum: words, pattern, format }: Schema): boolean {
  return type === 'string' && words === undefined && pattern === undefined && format === undefined;
}

function joined(parts: readonly Html[], separator: string): Html {
  return html`${parts.flatMap((part, index) => (index === 0 ? [part] : [html`${separator}`, part]))}`;
}

function lineOf(description: string | undefined): Html {
  return description === undefined ? EMPTY : html`<span class="dim"> ${description}</span>`;
}
