const ESCAPE = '\u001b[';

/** What a terminal makes of the few sequences that are written to it, and of every other one a failure. */
export class Screen {
  readonly #columns: number;
  readonly #rows: number;
  #main: string[] = [''];
  #other: string[] = [];
  #row = 0;
  #column = 0;
  /** True while the other screen is shown, without what the main one holds. */
  isOther = false;
  hasCursor = true;
  wraps = true;

  constructor(size: { readonly columns: number; readonly rows: number }) {
    this.#columns = size.columns;
    this.#rows = size.rows;
  }

  /** The lines of the screen that is shown, without what is blank at their ends. */
  lines(): string[] {
    return (this.isOther ? this.#other : this.#main).map((line) => line.trimEnd());
  }

  write(text: string): void {
    for (let at = 0; at < text.length;) at = this.#take(text, at);
  }

  /** Takes one character or sequence; returns where the next one begins. */
  #take(text: string, at: number): number {
    if (text.startsWith(ESCAPE, at)) {
      const sequence = /^\p{Cc}\[([?\d;]*[a-zA-Z])/u.exec(text.slice(at));
      // The rest of it has not come yet.
      if (sequence === null) return text.length;
      this.#act(sequence[1] ?? '');
      return at + sequence[0].length;
    }
    const character = text[at] ?? '';
    if (character === '\r') this.#column = 0;
    else if (character === '\n') this.#down();
    else this.#put(character);
    return at + 1;
  }

  #act(body: string): void {
    if (body === '?1049h' || body === '?1049l') {
      this.isOther = body.endsWith('h');
      this.#other = [];
      [this.#row, this.#column] = this.isOther ? [0, 0] : [this.#main.length - 1, 0];
    } else if (body === '?25h' || body === '?25l') this.hasCursor = body.endsWith('h');
    else if (body === '?7h' || body === '?7l') this.wraps = body.endsWith('h');
    else if (body === 'H') [this.#row, this.#column] = [0, 0];
    else if (body === 'K') this.#setLine(this.#line().slice(0, this.#column));
    else if (body === 'J') {
      this.#setLine(this.#line().slice(0, this.#column));
      (this.isOther ? this.#other : this.#main).length = this.#row + 1;
    } else if (!/^[\d;]*m$/.test(body)) throw new Error(`no terminal is asked for ${JSON.stringify(body)}`);
  }

  #down(): void {
    this.#row += 1;
    // As with any program that leaves the translation of line ends to the terminal.
    this.#column = 0;
    if (this.isOther && this.#row >= this.#rows) throw new Error('the page scrolls');
  }

  #put(character: string): void {
    if (this.isOther && this.#column >= this.#columns)
      throw new Error(`a line is wider than the terminal: ${this.#line()}`);
    const line = this.#line().padEnd(this.#column);
    this.#setLine(line.slice(0, this.#column) + character + line.slice(this.#column + 1));
    this.#column += 1;
  }

  #line(): string {
    return (this.isOther ? this.#other : this.#main)[this.#row] ?? '';
  }

  #setLine(line: string): void {
    const lines = this.isOther ? this.#other : this.#main;
    while (lines.length < this.#row) lines.push('');
    lines[this.#row] = line;
  }
}
