import { readinessCodes } from '../../observability/index.js';
import { entityTag } from '../http/responses/cacheHeaders.js';
import type { HttpResponse } from '../http/types.js';
import { Html, html, HTML_TYPE, pageHeaders } from './Html.js';
import { FILES_FOLDER, SCRIPT_FILE, STYLE_FILE } from './PageFiles.js';

/**
 * The page at `/`: a shell of a few lines, the same in every state of the daemon. Its scripts fill it from `/status`, so it opens
 * even while the indexing thread does not answer. `root`: a reference to the root of the server.
 */
export function statusPage(version: string, root: string): HttpResponse {
  const body = shell(version, root).text;
  return {
    body,
    contentType: HTML_TYPE,
    headers: pageHeaders({
      'script-src': "'self'",
      'style-src': "'self'",
      'connect-src': "'self'",
      // No script may turn text into HTML.
      'require-trusted-types-for': "'script'",
    }),
    validity: { tag: entityTag('page', body), isForever: false },
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
