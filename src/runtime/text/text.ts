import { withoutUrlPaths } from './credentials.js';

/** Characters that control a terminal or reorder text, and lone surrogates. */
const ACTING = /[\p{Cc}\p{Cs}\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;
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
  const inQuotes = quoted(text);
  return PLAIN.test(text) && inQuotes === `"${text}"` ? text : inQuotes;
}

/** As a URL has them: an IPv6 address in brackets. */
export function hostAndPort({ host, port }: { readonly host: string; readonly port: number }): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** A path as one word of a command that a message gives to type. */
export function inShell(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

/** Makes a message fit a terminal and a log line: one line, and a long one loses its middle. */
export function sentence(text: string): string {
  const line = escaped(text);
  if (line.length <= MAX_SENTENCE) return line;
  const cut = `${line.slice(0, MAX_SENTENCE - KEPT_END - 1)}…${line.slice(-KEPT_END)}`;
  // Lone surrogates that the cut left.
  return cut.replace(/\p{Cs}/gu, '');
}

/** `undefined` where it throws, whatever it is. */
export function unlessThrown<T>(attempt: () => T): T | undefined {
  try {
    return attempt();
  } catch {
    return undefined;
  }
}

/** The value of a JSON text; `undefined` if it is not JSON. */
export function jsonIn(text: string): unknown {
  return unlessThrown(() => JSON.parse(text) as unknown);
}

/** The fields of an object; none for any other value. */
export function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' ? { ...value } : {};
}

/** V8 names a position or, for an unexpected token, quotes the text around it. */
const POSITION = / (?:in|after) JSON at position (\d+).*$/s;
const QUOTED = /, (?:\.{3})?".*"(?:\.{3})? is not valid JSON$/s;

/** In valid JSON: texts, with a colon where they are keys, and where objects begin and end. */
const PART = /"((?:[^"\\]+|\\.)*)"\s*(:\s*\{?)?|[{}]/g;

/**
 * Parses JSON written by hand. The SyntaxError says what is wrong, in which line and column. It quotes nothing: a quote might
 * show part of a password. Any other Error reports a duplicate key.
 */
export function parseJson(text: string): unknown {
  const message = faultOf(text);
  if (message === undefined) {
    refuseRepeatedKey(text);
    return JSON.parse(text);
  }
  const lines = text.slice(0, positionOf(text, message)).split('\n');
  const what = message.replace(QUOTED, '').replace(POSITION, '').replace(' of JSON input', '');
  // Without `cause`, which quotes.
  throw new SyntaxError(`${what} in JSON at line ${lines.length}, column ${(lines.at(-1) ?? '').length + 1}`);
}

/** `JSON.parse` silently keeps the last one. `"a": {"b": 1}` and `"a.b": 1` are the same key. */
function refuseRepeatedKey(text: string): void {
  const lines = new Map<string, number>();
  const groups: string[] = [];
  let [line, counted] = [1, 0];
  for (const { 0: part, 1: name, 2: colon, index } of text.matchAll(PART)) {
    const path = name === undefined ? String(index) : `${groups.at(-1) ?? ''}.${name}`;
    if (part === '}') groups.pop();
    else if (part.endsWith('{') && colon !== '') groups.push(path);
    if (name === undefined || colon === undefined || name.startsWith('$')) continue;
    for (; counted < index; counted += 1) if (text[counted] === '\n') line += 1;
    const earlier = lines.get(path);
    if (earlier !== undefined) {
      const which = earlier === line ? `line ${line} sets` : `lines ${earlier} and ${line} both set`;
      throw new Error(`${which} ${named(name)}${earlier === line ? ' twice' : ''}; keep one of them`);
    }
    lines.set(path, line);
  }
}

function positionOf(text: string, message: string): number {
  const named = POSITION.exec(message)?.[1];
  if (named !== undefined) return Number(named);
  if (!QUOTED.test(message)) return text.length;
  // The shortest beginning of the text that has an unexpected token ends with it.
  let [low, high] = [1, text.length];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (QUOTED.test(faultOf(text.slice(0, middle)) ?? '')) high = middle;
    else low = middle + 1;
  }
  return low - 1;
}

/** Why it is not JSON, in V8's words; `undefined` if it is. */
function faultOf(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return (error as SyntaxError).message;
  }
}
