/** Characters that would act on a terminal or reorder what stands beside them. */
// eslint-disable-next-line no-control-regex -- control characters are what is looked for
const ACTING = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
/** A text that can stand in a sentence as it is. */
const PLAIN = /^[\w./:@+~-]+$/;
const MAX_QUOTED = 80;
const MAX_SENTENCE = 1_000;
/** Of a sentence that is too long, the end, which says what to do, keeps so much. */
const KEPT_END = 400;

/** The text with every character that would act on a terminal written out, as JSON does. */
function escaped(text: string): string {
  return text.replace(ACTING, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** The beginning of a text. */
export function shortened(text: string): string {
  return text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED)}…` : text;
}

/** A text of somebody else's in quotes, shortened, for use in a message. */
export function quoted(text: string): string {
  return escaped(JSON.stringify(shortened(text)));
}

/** As `quoted`, but an ordinary word stands without quotes. */
export function named(text: string): string {
  return text.length <= MAX_QUOTED && PLAIN.test(text) ? text : quoted(text);
}

/** A message that fits on a terminal and in a log line, whatever went into it: a long one loses its middle. */
export function sentence(text: string): string {
  const line = escaped(text);
  if (line.length <= MAX_SENTENCE) return line;
  return `${line.slice(0, MAX_SENTENCE - KEPT_END - 1)}…${line.slice(-KEPT_END)}`;
}
