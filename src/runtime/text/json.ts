/** The part of V8's message that quotes the text around an error. */
const QUOTED = /, (?:\.{3})?".*"(?:\.{3})? is not valid JSON$/s;

/**
 * Parses JSON that somebody wrote by hand. The SyntaxError says what is wrong and, where the engine knows, at
 * which position. It quotes nothing: a quote might show part of a password.
 */
export function parseJson(text: string): unknown {
  let message: string;
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    ({ message } = error);
  }
  // Without `cause`, which quotes.
  throw new SyntaxError(message.replace(QUOTED, ' in JSON'));
}
