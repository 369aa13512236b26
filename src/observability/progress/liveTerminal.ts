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

export type LiveTerminal = ReturnType<typeof liveTerminal>;

/**
 * A terminal whose last line is rewritten in place while ordinary lines scroll above it. All output goes through
 * here, one write per change, so that the two never mix. It is a `LogDestination`.
 */
export function liveTerminal(stream: TerminalStream) {
  let shown: string | undefined;
  return {
    /** The width of the live line. The last column stays free, because some terminals wrap when it is written. */
    columns: (): number => Math.max(1, (stream.columns ?? DEFAULT_COLUMNS) - 1),
    /** Prints whole lines above the live line. */
    write: (text: string): void => {
      const whole = text.endsWith('\n') ? text : `${text}\n`;
      stream.write(shown === undefined ? text : `${CLEAR_LINE}${whole}${shown}`);
    },
    /** Replaces the live line, unless the terminal is behind: the next one will be newer. `undefined` removes it. */
    setLine: (line: string | undefined): void => {
      if (line === shown) return;
      shown = line;
      if (line !== undefined && stream.isBehind === true) return;
      stream.write(`${CLEAR_LINE}${line ?? ''}`);
    },
  };
}
