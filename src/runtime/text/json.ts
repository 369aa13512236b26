/** V8 names a position or, for an unexpected token, quotes the text around it. */
const POSITION = / (?:in|after) JSON at position (\d+).*$/s;
const QUOTED = /, (?:\.{3})?".*"(?:\.{3})? is not valid JSON$/s;

/**
 * Parses JSON that somebody wrote by hand. The SyntaxError says what is wrong, in which line and column. It quotes
 * nothing: a quote might show part of a password.
 */
export function parseJson(text: string): unknown {
  let message: string;
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    ({ message } = error);
  }
  const lines = text.slice(0, positionOf(text, message)).split('\n');
  const what = message.replace(QUOTED, '').replace(POSITION, '').replace(' of JSON input', '');
  // Without `cause`, which quotes.
  throw new SyntaxError(`${what} in JSON at line ${lines.length}, column ${(lines.at(-1) ?? '').length + 1}`);
}

function positionOf(text: string, message: string): number {
  const named = POSITION.exec(message)?.[1];
  if (named !== undefined) return Number(named);
  if (!QUOTED.test(message)) return text.length;
  // The shortest beginning of the text that has an unexpected token ends with it.
  let [low, high] = [1, text.length];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (hasUnexpectedToken(text.slice(0, middle))) high = middle;
    else low = middle + 1;
  }
  return low - 1;
}

function hasUnexpectedToken(text: string): boolean {
  try {
    JSON.parse(text);
    return false;
  } catch (error) {
    return error instanceof SyntaxError && QUOTED.test(error.message);
  }
}
