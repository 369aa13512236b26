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

function textOf(piece: Piece): string {
  if (piece instanceof Html) return piece.text;
  if (typeof piece === 'string' || typeof piece === 'number') return escaped(String(piece));
  return piece.map(({ text }) => text).join('');
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
