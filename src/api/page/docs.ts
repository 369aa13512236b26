import type { HttpResponse } from '../http/types.js';
import type { openApiDocument } from '../openapi.js';
import * as T from '../Schema.js';
import { html, type Html } from './Html.js';
import { pageOf } from './pages.js';

type Document = ReturnType<typeof openApiDocument>;
type Operation = Document['paths'][string]['get'];

const EMPTY = html``;

/** The page at `/docs`: the OpenAPI document for humans. `root`: a reference to the root of the server. */
export function docsPage({ info, paths, components }: Document, root: string): HttpResponse {
  const title = `${info.title}: HTTP routes`;
  const body = html`<main class="plain">
    <p><a href="${root}">Start</a> · <a href="${root}openapi.json">openapi.json</a></p>
    <h1>${title}</h1>
    <p class="dim">${info.version}</p>
    <p>${info.description}</p>
    <h2>Routes</h2>
    ${Object.entries(paths).map(([path, { get }]) => routeOf(path, get))}
    <h2>Schemas</h2>
    ${Object.entries(components.schemas).map(([name, schema]) =>
      section(name, html`<code>${name}</code>${noteOf(schema)}`, fieldsOf(schema)),
    )}
  </main>`;
  return pageOf(root, title, body);
}

function routeOf(path: string, { operationId, summary, parameters, responses }: Operation): Html {
  const parameterRows = parameters.map(({ name, in: place, required, description, schema }) => [
    html`<code>${name}</code>`,
    html`${place}${required ? ', required' : ''}: ${description} ${schemaOf(schema)}`,
  ]);
  const responseRows = Object.entries(responses).map(([status, { description, content = {} }]) => [
    html`${status}`,
    html`${description}${
      status === '200'
        ? Object.entries(content).map(
            ([type, { schema }]) => html` ${schemaOf(schema)} as <code>${type}</code>`,
          )
        : EMPTY
    }`,
  ]);
  const title = html`<code>GET ${path}</code><span class="dim">${summary}</span>`;
  return section(operationId, title, html`${table(parameterRows)}${table(responseRows)}`);
}

function fieldsOf(schema: T.Keywords): Html {
  const { properties, required = [] } = schema;
  if (properties === undefined) return html`<p>${schemaOf(schema)}</p>`;
  return table(
    Object.entries(properties).map(([name, field]) => [
      html`<code>${name}</code>`,
      html`${schemaOf(field)}${required.includes(name) ? '' : ', may be absent'}${noteOf(field)}`,
    ]),
  );
}

/** A schema in a few words, linked if it has a name. */
function schemaOf(schema: T.Keywords): Html {
  const { $ref, type, items, oneOf, properties, enum: words } = schema;
  if ($ref !== undefined) {
    const name = $ref.slice(T.COMPONENTS.length);
    return html`<a href="#${name}">${name}</a>`;
  }
  if (oneOf !== undefined) return joined(oneOf.map(schemaOf), ' or ');
  if (words !== undefined) return html`<code>${words.join(' | ')}</code>`;
  if (items !== undefined) return html`list of ${schemaOf(items)}`;
  if (properties !== undefined) {
    const fields = Object.entries(properties).map(
      ([name, field]) => html`<code>${name}</code> (${schemaOf(field)})`,
    );
    return html`object of ${joined(fields, ', ')}${[type].flat().includes('null') ? ', or null' : ''}`;
  }
  const detail = schema.format ?? schema.contentEncoding ?? schema.pattern;
  return html`${[type ?? 'anything'].flat().join(' or ')}
  ${detail === undefined ? EMPTY : html`<code>${detail}</code>`}`;
}

function section(id: string, title: Html, body: Html): Html {
  return html`<details>
    <summary>${title}</summary>
    <div id="${id}">${body}</div>
  </details>`;
}

function table(rows: readonly (readonly Html[])[]): Html {
  const cells = rows.map(
    (row) =>
      html`<tr>
        ${row.map((cell) => html`<td>${cell}</td>`)}
      </tr>`,
  );
  return html`<table>
    ${cells}
  </table>`;
}

function joined(parts: readonly Html[], separator: string): Html {
  return html`${parts.flatMap((part, index) => (index === 0 ? [part] : [html`${separator}`, part]))}`;
}

function noteOf({ description }: T.Keywords): Html {
  return description === undefined ? EMPTY : html`<span class="dim"> ${description}</span>`;
}
