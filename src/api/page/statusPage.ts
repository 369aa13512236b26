import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readinessCodes } from '../../observability/index.js';
import { packageRoot, quoted } from '../../runtime/index.js';
import type { HttpResponse } from '../http/types.js';
import { ApiError } from '../view/ApiError.js';
import { Html, html, HTML_TYPE, pageHeaders } from './Html.js';

/** Where the files are served, from the root of the server. */
export const FILES_FOLDER = 'page/';
export const STYLE_FILE = 'style.css';
/** The script of the page with its library. */
const SCRIPT_FILE = 'page.js';
const FILE_TYPES: ReadonlyMap<string, string> = new Map([
  [STYLE_FILE, 'text/css; charset=UTF-8'],
  [SCRIPT_FILE, 'text/javascript; charset=UTF-8'],
]);

/**
 * The page at `/`: a shell of a few lines, the same in every state of the daemon. Its scripts fill it from `/status`, so it opens
 * even while the indexing thread does not answer. `root`: a reference to the root of the server.
 */
export function statusPage(version: string, root: string): HttpResponse {
  return {
    body: shell(version, root).text,
    contentType: HTML_TYPE,
    headers: pageHeaders({
      'script-src': "'self'",
      'style-src': "'self'",
      'connect-src': "'self'",
      // No script may turn text into HTML.
      'require-trusted-types-for': "'script'",
    }),
    kept: 'revalidated',
  };
}

/** What each readiness code means and what to do, for the scripts. `<` could end the element that holds it. */
const codes = JSON.stringify(readinessCodes).replaceAll('<', '\\u003c');

function shell(version: string, root: string): Html {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>Flow collection indexer</title>
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href="${root}${FILES_FOLDER}${STYLE_FILE}" />
        <script type="application/json" id="readiness-codes">
          ${new Html(codes)}
        </script>
        <script type="module" src="${root}${FILES_FOLDER}${SCRIPT_FILE}"></script>
      </head>
      <body data-version="${version}">
        <noscript>
          <main class="plain">
            <h1>Flow collection indexer</h1>
            <p>This page needs JavaScript. Without it:</p>
            <ul>
              <li><a href="${root}status">/status</a>: what the daemon is doing, and why, as JSON</li>
              <li><a href="${root}docs">/docs</a>: every HTTP route</li>
            </ul>
          </main>
        </noscript>
        <div id="page"></div>
      </body>
    </html> `;
}

/**
 * Gives the files of the status page, which the build puts into dist/: about 60 kB together, read at once, because an upgrade may
 * replace them while this version runs.
 */
export function pageFiles(): (name: string) => HttpResponse {
  const files = new Map<string, HttpResponse>();
  for (const [name, contentType] of FILE_TYPES) {
    const body = readFileSync(join(packageRoot, 'dist', name), 'utf8');
    files.set(name, { body, contentType, kept: 'revalidated' });
  }
  /** Expected errors: ApiError (`not_served`). */
  return (name) => {
    const file = files.get(name);
    if (file === undefined)
      throw new ApiError(404, 'not_served', `there is nothing at ${quoted(`/${FILES_FOLDER}${name}`)}`);
    return file;
  };
}
