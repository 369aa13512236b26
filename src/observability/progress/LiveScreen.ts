import type { TerminalStream } from './LiveTerminal.js';

/** The alternate screen, without cursor or line wrapping. */
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l';
const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const CLEAR_LINE_END = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';

/** A page redrawn in place over the whole terminal, without flicker. The previous content comes back afterwards. */
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
