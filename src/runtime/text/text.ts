import { withoutUrlPaths } from './credentials.js';

/** Characters that control a terminal or reorder text. */
const ACTING = /[\p{Cc}\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;
/** A text that can appear in a sentence without quotes. */
const PLAIN = /^[\w./:@+~-]+$/;
const MAX_QUOTED = 80;
const MAX_SENTENCE = 1_000;
/** The part at the end of a long message that is kept: it says what to do. */
const KEPT_END = 400;

/** Escapes every character that controls a terminal, as JSON does. */
function escaped(text: string): string {
  return text.replace(ACTING, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Shortens a text to its beginning. */
export function shortened(text: string): string {
  return text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED)}…` : text;
}

/** Quotes and shortens a foreign text for a message, without the paths of URLs in it. */
export function quoted(text: string): string {
  return escaped(JSON.stringify(shortened(withoutUrlPaths(text))));
}

/** Like `quoted`, but ordinary words get no quotes. */
export function named(text: string): string {
  return text.length <= MAX_QUOTED && PLAIN.test(text) && withoutUrlPaths(text) === text
    ? text
    : quoted(text);
}

/** Makes a message fit a terminal and a log line: one line, and a long one loses its middle. */
export function sentence(text: string): string {
  const line = escaped(text);
  if (line.length <= MAX_SENTENCE) return line;
  return `${line.slice(0, MAX_SENTENCE - KEPT_END - 1)}…${line.slice(-KEPT_END)}`;
}
