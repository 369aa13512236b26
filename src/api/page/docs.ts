import type { HttpResponse } from '../http/types.js';
import type { openApiDocument } from '../openapi.js';
import * as T from '../Schema.js';
import { html, type Html } from './Html.js';
import { pageOf } from './pages.js';

type Document = ReturnType<typeof openApiDocument>;
type Operation = Document['paths'][string]['get'];

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
      section(name, html`<code>${name}</code>${noteOf(schema)}`, html`${wordsOf(schema)}${fieldsOf(schema)}`),
    )}
  </main>`;
  return pageOf(root, title, body);
}

function routeOf(path: string, { operationId, summary, parameters, responses }: Operation): Html {
  const parameterRows = parameters.map(({ name, in: place, required, description, schema }) => [
    html`<code>${name}</code>`,
    html`${place}${required ? ', required' : ''}: ${description} ${wordsOf(schema)}`,
  ]);
  const responseRows = Object.entries(responses).map(([status, { description, content = {} }]) => {
    const forms = status === '200' ? Object.entries(content) : [];
    const types = forms.map(([type, { schema }]) => html` ${wordsOf(schema)} as <code>${type}</code>`);
    return [html`${status}`, html`${description}${types}`];
  });
  const title = html`<code>GET ${path}</code><span class="dim">${summary}</span>`;
  return section(operationId, title, html`${table(parameterRows)}${table(responseRows)}`);
}

/** The fields of an unnamed object, or of each unnamed object of a list. */
function fieldsOf(schema: T.Keywords): Html {
  const { properties = {}, required = [] } = schema.items ?? schema;
  const rows = Object.entries(properties).map(([name, field]) => {
    const absent = required.includes(name) ? '' : ', may be absent';
    return [html`<code>${name}</code>`, html`${wordsOf(field)}${absent}${noteOf(field)}${fieldsOf(field)}`];
  });
  return table(rows);
}

/** A schema in a few words, linked if it has a name. */
function wordsOf({ $ref, type = 'anything', items, oneOf, enum: words, ...text }: T.Keywords): Html {
  if ($ref !== undefined) {
    const name = $ref.slice(T.COMPONENTS.length);
    return html`<a href="#${name}">${name}</a>`;
  }
  if (oneOf !== undefined) return html`one of ${oneOf.map((each) => html`${wordsOf(each)} `)}`;
  if (words !== undefined) return html`<code>${words.join(' | ')}</code>`;
  if (items !== undefined) return html`list of ${wordsOf(items)}`;
  const detail = text.format ?? text.contentEncoding ?? text.pattern ?? '';
  return html`${[type].flat().join(' or ')}${detail && html` <code>${detail}</code>`}`;
}

function section(id: string, title: Html, body: Html): Html {
  return html`<details>
    <summary>${title}</summary>
    <div id="${id}">${body}</div>
  </details>`;
}

function table(rows: readonly (readonly Html[])[]): Html {
  if (rows.length === 0) return html``;
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

function noteOf({ description = '' }: T.Keywords): Html {
  return html`<span class="dim"> ${description}</span>`;
}
