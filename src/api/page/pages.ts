import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readinessCodes } from '../../observability/index.js';
import { packageRoot } from '../../runtime/index.js';
import type { HttpResponse, HttpRoute } from '../http/types.js';
import { Html, html } from './Html.js';

/** What the pages load, which the build puts into dist/, by its path from the root of the server. */
const STYLE = 'page/style.css';
/** The script of the status page with its library. */
const SCRIPT = 'page/page.js';

/** Serves these files, about 60 kB together, read at once, because an upgrade may replace them while this version runs. */
export function fileRoutes(): readonly HttpRoute[] {
  const types = { [STYLE]: 'text/css; charset=UTF-8', [SCRIPT]: 'text/javascript; charset=UTF-8' };
  return Object.entries(types).map(([path, contentType]) => {
    const body = readFileSync(join(packageRoot, 'dist', basename(path)), 'utf8');
    return { path: `/${path}`, kind: 'file', handle: () => ({ body, contentType, kept: 'revalidated' }) };
  });
}

/**
 * A page may load and run only what is served here, and no script may turn text into HTML. No other page may frame it, and links
 * from it send no referrer.
 */
const HEADERS = {
  'content-security-policy': [
    ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", 'img-src data:'],
    ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
    "require-trusted-types-for 'script'",
  ].join('; '),
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
} as const;

/** A page in the style of all. `root`: a reference to the root of the server. */
export function pageOf(root: string, title: string, body: Html, head: Html = html``): HttpResponse {
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title}</title>
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href="${root}${STYLE}" />
        ${head}
      </head>
      <body>
        ${body}
      </body>
    </html> `;
  return { body: page.text, contentType: 'text/html; charset=UTF-8', headers: HEADERS, kept: 'revalidated' };
}

/** What each readiness code means and what to do, for the scripts. `<` could end the element that holds it. */
const codes = JSON.stringify(readinessCodes).replaceAll('<', '\\u003c');

/**
 * The page at `/`: a shell of a few lines, the same in every state of the daemon. Its scripts fill it from `/status`, so it opens
 * even while the indexing thread does not answer.
 */
export function statusPage(version: string, root: string): HttpResponse {
  const head = html`<script type="application/json" id="readiness-codes">
      ${new Html(codes)}
    </script>
    <script type="module" src="${root}${SCRIPT}"></script>`;
  const body = html`<noscript>
      <main class="plain">
        <h1>Flow collection indexer</h1>
        <p>This page needs JavaScript. Without it:</p>
        <ul>
          <li><a href="${root}status">/status</a>: what the daemon is doing, and why, as JSON</li>
          <li><a href="${root}docs">/docs</a>: every HTTP route</li>
        </ul>
      </main>
    </noscript>
    <div id="page" data-version="${version}"></div>`;
  return pageOf(root, 'Flow collection indexer', body, head);
}
