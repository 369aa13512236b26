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

function textOf(piece: Piece): string {
  if (piece instanceof Html) return piece.text;
  if (typeof piece === 'string' || typeof piece === 'number') return escaped(String(piece));
  return piece.map(({ text }) => text).join('');
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
