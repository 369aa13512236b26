import type { TerminalStream } from './LiveTerminal.js';

/** The other screen, without a cursor; what is too wide is cut and not wrapped. */
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l';
const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const CLEAR_LINE_END = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';

/**
 * A page that is drawn again and again over the whole terminal, without flicker and whatever the terminal showed before, which
 * is there again afterwards.
 */
export class LiveScreen {
  readonly #stream: TerminalStream;
  #isOpen = false;

  constructor(dependencies: { readonly stream: TerminalStream }) {
    this.#stream = dependencies.stream;
  }

  /** The first page takes the screen over. `lines`: at most as many as the terminal has. */
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
