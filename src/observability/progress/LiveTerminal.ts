/** A terminal such as `process.stdout`. */
export interface TerminalStream {
  write(text: string): unknown;
  /** Width; `undefined` if unknown. */
  readonly columns?: number | undefined;
  /** It has not shown everything written to it yet. */
  readonly isBehind?: boolean | undefined;
}

const DEFAULT_COLUMNS = 80;
const CLEAR_LINE = '\r\u001b[2K';

/**
 * A terminal whose last line is rewritten in place while ordinary lines scroll above it. All output goes through
 * here, one write per change, so that the two never mix. It is a `LogDestination`.
 */
export class LiveTerminal {
  readonly #stream: TerminalStream;
  #line: string | undefined;

  constructor(dependencies: { readonly stream: TerminalStream }) {
    this.#stream = dependencies.stream;
  }

  /** The width of the live line. The last column stays free, because some terminals wrap when it is written. */
  columns(): number {
    return Math.max(1, (this.#stream.columns ?? DEFAULT_COLUMNS) - 1);
  }

  /** Prints whole lines above the live line. */
  write(text: string): void {
    const whole = text.endsWith('\n') ? text : `${text}\n`;
    this.#stream.write(this.#line === undefined ? text : `${CLEAR_LINE}${whole}${this.#line}`);
  }

  /** Replaces the live line, unless the terminal is behind: the next one will be newer. `undefined` removes it. */
  setLine(line: string | undefined): void {
    if (line === this.#line) return;
    this.#line = line;
    if (line !== undefined && this.#stream.isBehind === true) return;
    this.#stream.write(`${CLEAR_LINE}${line ?? ''}`);
  }
}

/** The alternate screen, without cursor or line wrapping. */
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l';
const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const CLEAR_LINE_END = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';

/** A page redrawn in place over the whole terminal, without flicker. The previous content is restored afterwards. */
export class LiveScreen {
  readonly #stream: TerminalStream;
  #isOpen = false;

  constructor(dependencies: { readonly stream: TerminalStream }) {
    this.#stream = dependencies.stream;
  }

  /** Draws a page; the first one takes over the screen. `lines`: at most as many as the terminal has. */
  show(lines: readonly string[]): void {
    const enter = this.#isOpen ? '' : ENTER;
    this.#isOpen = true;
    const page = lines.map((line) => line + CLEAR_LINE_END).join('\r\n');
    this.#stream.write(`${enter}${HOME}${page}${CLEAR_BELOW}`);
  }

  /** Gives the screen back. Idempotent. */
  close(): void {
    if (this.#isOpen) this.#stream.write(LEAVE);
    this.#isOpen = false;
  }
}
