/** Text that is already HTML. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Piece = Html | string | number | readonly Html[];

/** HTML from a template: inserted values are escaped unless they are already HTML. */
export function html(strings: TemplateStringsArray, ...pieces: readonly Piece[]): Html {
  const filled = pieces.map((piece, index) => textOf(piece) + (strings[index + 1] ?? ''));
  return new Html((strings[0] ?? '') + filled.join(''));
}

export const HTML_TYPE = 'text/html; charset=UTF-8';

/**
 * The headers of a page. It may load and run only what `allowed` names. No other page may frame it, and links from it send no
 * referrer.
 */
export function pageHeaders(allowed: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const policy = {
    'default-src': "'none'",
    'img-src': 'data:',
    'base-uri': "'none'",
    'form-action': "'none'",
    'frame-ancestors': "'none'",
    ...allowed,
  };
  return {
    'content-security-policy': Object.entries(policy)
      .map(([name, value]) => `${name} ${value}`)
      .join('; '),
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
  };
}

/** A whole page. It loads nothing and runs no script. */
export function page(title: string, body: Html): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <link rel="icon" href="data:," />
        <title>${title}</title>
        <style>
          ${new Html(style)}
        </style>
      </head>
      <body>
        <main>${body}</main>
      </body>
    </html> `.text;
}

function textOf(piece: Piece): string {
  if (piece instanceof Html) return piece.text;
  if (typeof piece === 'string' || typeof piece === 'number') return escaped(String(piece));
  return piece.map(({ text }) => text).join('');
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

const style = `
:root {
  color-scheme: light dark; --ground: #ffffff; --text: #18202a;
  --line: #d5dae1; --soft: #f4f6f8; --dim: #5b6470; --link: #0b5cb8;
}
@media (prefers-color-scheme: dark) {
  :root { --ground: #13171c; --text: #e7ebf0; --line: #3a414b; --soft: #1f242b; --dim: #9aa4b1; --link: #7ab8ff; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1.25rem 4rem; font: 16px/1.5 system-ui, sans-serif;
  background: var(--ground); color: var(--text); }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.25rem 0 .75rem; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
p { margin: .35rem 0; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
.dim { color: var(--dim); }
table { border-collapse: collapse; width: 100%; font-size: .925rem; margin: .5rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .75rem .35rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; color: var(--dim); }
td:first-child { white-space: nowrap; width: 13rem; }
@media (max-width: 40rem) { td:first-child { white-space: normal; width: auto; } }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; }
details > div { scroll-margin-top: 5rem; padding: .25rem .9rem .75rem; }
summary { background: var(--soft); border-radius: 6px; cursor: pointer; padding: .55rem .9rem; }
summary .dim { display: block; font-size: .925rem; }
`;
