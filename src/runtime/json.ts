/** What V8 quotes of the text around a fault. */
const QUOTED = /, (?:\.{3})?".*"(?:\.{3})? is not valid JSON$/s;

/**
 * Reads JSON that somebody wrote by hand. Throws a SyntaxError that says what is wrong and, where the engine tells it, at which
 * position, but quotes nothing: the piece that an engine quotes may begin in the middle of a password.
 */
export function parseJson(text: string): unknown {
  let message: string;
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    ({ message } = error);
  }
  // Without its cause, which quotes.
  throw new SyntaxError(message.replace(QUOTED, ' in JSON'));
}
