import { FormatError } from './FormatError.js';
import { quoted, shortened, withoutCredentials } from '../runtime/index.js';

/** How a setting's value is written, checked and described. */
export interface Format<T> {
  /** What is allowed, in a few words, for documentation and error messages. */
  readonly allowed: string;
  /** True for flags without a value. */
  readonly isSwitch?: boolean;
  /** The words it allows, if any. */
  readonly words?: readonly string[];
  /** True for lists: the flag is repeated, the environment variable is separated by commas. */
  readonly isList?: boolean;
  /** Parses a flag or an environment variable. Expected errors: FormatError. */
  parse(text: string): T;
  /** Checks a value from a configuration file. Expected errors: FormatError. */
  check(value: unknown): T;
}

function refuse(value: unknown, allowed: string): never {
  const shown =
    typeof value === 'string'
      ? quoted(withoutCredentials(value))
      : shortened(withoutCredentials(JSON.stringify(value)));
  throw new FormatError(`${shown} is not ${allowed}`);
}

const MAX_ADDRESS_LENGTH = 2_048;

const BYTE_UNITS: Readonly<Record<string, number>> = { KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 };

/** A whole number within bounds. */
export function integer(min: number, max: number): Format<number> {
  const allowed = `a whole number from ${min} to ${max}`;
  const check = (value: unknown): number =>
    typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max
      ? value
      : refuse(value, allowed);
  return {
    allowed,
    check,
    parse: (text) => check(/^-?\d+$/.test(text) ? Number(text) : text),
  };
}

/** A size in bytes: a whole number, or one with a unit (KiB, MiB, GiB). */
export function byteSize(min: number, max: number): Format<number> {
  const allowed = `a size from ${formatBytes(min)} to ${formatBytes(max)} (bytes, or with a unit: 128MiB)`;
  const check = (value: unknown): number => {
    const match = typeof value === 'string' ? /^(\d+)\s*(KiB|MiB|GiB)?$/.exec(value) : null;
    const bytes = match === null ? value : Number(match[1]) * (BYTE_UNITS[match[2] ?? ''] ?? 1);
    return typeof bytes === 'number' && Number.isSafeInteger(bytes) && bytes >= min && bytes <= max
      ? bytes
      : refuse(value, allowed);
  };
  return { allowed, check, parse: check };
}

/** A size in the largest unit that gives a whole number. */
export function formatBytes(bytes: number): string {
  for (const unit of ['GiB', 'MiB', 'KiB']) {
    const factor = BYTE_UNITS[unit] ?? 1;
    if (bytes >= factor && bytes % factor === 0) return `${bytes / factor}${unit}`;
  }
  return String(bytes);
}

/** One of a few words. */
export function choice<const T extends string>(words: readonly T[]): Format<T> {
  const allowed = `one of ${words.join(', ')}`;
  const check = (value: unknown): T => words.find((word) => word === value) ?? refuse(value, allowed);
  return { allowed, words, check, parse: check };
}

/** Some of a few words, each once: separated by commas, or a repeated flag, or an array in a file. */
export function words<const T extends string>(known: readonly T[]): Format<readonly T[]> {
  const allowed = `one or several of ${known.join(', ')}, separated by commas`;
  const check = (value: unknown): readonly T[] => {
    const written: readonly unknown[] = Array.isArray(value) ? value : [value];
    const named = written.flatMap((each) => (typeof each === 'string' ? each.split(',') : [each]));
    const found = named.map((each) => (typeof each === 'string' ? each.trim() : each));
    if (found.length === 0 || !found.every((each) => known.some((word) => word === each))) {
      return refuse(value, allowed);
    }
    return known.filter((word) => found.includes(word));
  };
  return { allowed, words: known, isList: true, check, parse: check };
}

/** A switch. In the environment: true, false, 1, 0, yes, no, on, off. */
export const boolean: Format<boolean> = {
  allowed: 'true or false',
  isSwitch: true,
  check: (value) => (typeof value === 'boolean' ? value : refuse(value, 'true or false')),
  parse: (text) => {
    if (/^(?:true|1|yes|on)$/i.test(text)) return true;
    if (/^(?:false|0|no|off)$/i.test(text)) return false;
    return refuse(text, 'true or false');
  },
};

const CONTROL = /\p{Cc}/u;

/** Any text that is not empty and has no control characters: no path or address has any. */
export function text(allowed: string): Format<string> {
  const check = (value: unknown): string =>
    typeof value === 'string' && value.trim() !== '' && !CONTROL.test(value) ? value : refuse(value, allowed);
  return { allowed, check, parse: check };
}

/** Base address of an HTTP interface: no credentials, query or fragment, and no `/` or `/v1` at its end. */
export const httpAddress: Format<string> = (() => {
  const allowed = 'an address such as https://host, or http://host:port/path, to which /v1/… is added';
  const check = (value: unknown): string => {
    if (typeof value !== 'string' || value.length > MAX_ADDRESS_LENGTH || /[\s\\]/.test(value)) {
      return refuse(value, allowed);
    }
    if (!/^https?:\/\/[^/]/i.test(value) || !URL.canParse(value)) return refuse(value, allowed);
    const { hostname, username, password, search, hash, pathname } = new URL(value);
    const path = pathname.replace(/\/+$/, '');
    const isBase = hostname !== '' && search === '' && hash === '' && !/[?#]/.test(value);
    if (!isBase || username + password !== '' || /(?:^|\/)v1$/.test(path)) return refuse(value, allowed);
    return new URL(value).origin + path;
  };
  return { allowed, check, parse: check };
})();

const MAX_ORIGINS = 64;
const ANY_ORIGIN = '*';
const NO_ORIGIN = 'none';

/** Origins of web pages as browsers write them; `*` for all; `none`, alone, for an empty list. */
export const origins: Format<readonly string[]> = (() => {
  const allowed = 'an origin such as https://app.example or http://localhost:3000';
  const origin: Format<string> = {
    allowed: `${allowed}, or ${ANY_ORIGIN}, or ${NO_ORIGIN} alone`,
    parse: (value) => origin.check(value),
    check: (value) => {
      if (value === ANY_ORIGIN || value === NO_ORIGIN) return value;
      if (typeof value !== 'string' || !/^https?:\/\/[^/]+$/i.test(value) || !URL.canParse(value)) {
        return refuse(value, origin.allowed);
      }
      const { origin: normal, username, password } = new URL(value);
      return username + password === '' ? normal : refuse(value, origin.allowed);
    },
  };
  const items = list(origin, MAX_ORIGINS);
  const named = (values: readonly string[]): readonly string[] => {
    if (!values.includes(NO_ORIGIN)) return values;
    return values.length === 1 ? [] : refuse(values.join(), `${NO_ORIGIN} alone`);
  };
  return {
    ...items,
    parse: (value) => named(items.parse(value)),
    check: (value) => named(items.check(value)),
  };
})();

/** The heights of a plan to fill history in, as operators write them. */
export interface HeightsToFill {
  readonly from: number | 'root' | 'everything' | { readonly spork: string };
  /** `undefined`: up to the live range. */
  readonly to: number | undefined;
}

const HEIGHTS_TO_FILL =
  /^(?:(?<word>root|everything)|spork:(?<spork>[\w.-]+)|(?<from>\d{1,16}))(?:\.\.(?<to>\d{1,16}))?$/;

/** What a text of the format `heightsToFill` says; `undefined` for any other. */
export function readHeightsToFill(text: string): HeightsToFill | undefined {
  const { word, spork, from, to } = HEIGHTS_TO_FILL.exec(text)?.groups ?? {};
  const last = to === undefined ? undefined : Number(to);
  if (word === 'root' || word === 'everything') return { from: word, to: last };
  if (spork !== undefined) return { from: { spork }, to: last };
  return from === undefined ? undefined : { from: Number(from), to: last };
}

/** Where a plan begins, and after two dots where it ends. */
export const heightsToFill: Format<string> = (() => {
  const allowed =
    'a range of heights: FROM or FROM..TO, where FROM is a height, root, spork:NAME or everything, and TO a height';
  const check = (value: unknown): string => {
    const read = typeof value === 'string' ? readHeightsToFill(value) : undefined;
    const isInOrder = typeof read?.from !== 'number' || read.from <= (read.to ?? Infinity);
    return read !== undefined && isInOrder ? String(value) : refuse(value, allowed);
  };
  return { allowed, check, parse: check };
})();

/** A number, or a word that stands for one. */
export function integerOr<const T extends string>(
  min: number,
  max: number,
  words: readonly T[],
): Format<number | T> {
  const number = integer(min, max);
  const upTo = max < Number.MAX_SAFE_INTEGER ? ` to ${max}` : '';
  const allowed = `${words.join(', ')} or a whole number from ${min}${upTo}`;
  const check = (value: unknown): number | T => {
    const word = words.find((candidate) => candidate === value);
    if (word !== undefined) return word;
    try {
      return number.check(value);
    } catch {
      return refuse(value, allowed);
    }
  };
  return { allowed, words, check, parse: (value) => check(/^\d+$/.test(value) ? Number(value) : value) };
}

/** A list: a repeated flag, a comma-separated environment variable, or an array in a file. */
export function list(item: Format<string>, maxLength: number): Format<readonly string[]> {
  const allowed = `a list of at most ${maxLength}, each ${item.allowed}`;
  const check = (value: unknown): readonly string[] => {
    if (!Array.isArray(value) || value.length > maxLength) return refuse(value, allowed);
    return value.map((entry: unknown) => item.check(entry));
  };
  return {
    allowed,
    isList: true,
    check,
    parse: (value) =>
      check(
        value
          .split(',')
          .map((entry) => entry.trim())
          .filter((entry) => entry !== ''),
      ),
  };
}

/** An optional value (`null` in a file, empty in the environment). */
export function optional<T>(format: Format<T>): Format<T | null> {
  return {
    ...format,
    parse: (value) => (value === '' ? null : format.parse(value)),
    check: (value) => (value === null ? null : format.check(value)),
  };
}

/** An optional text. */
export function optionalText(allowed: string): Format<string | null> {
  return optional(text(allowed));
}

/** Nothing longer is a misspelt word, and comparing it would take seconds. */
const LONGEST_WORD = 64;

/**
 * Guesses which of `known` was meant: those that contain `value` as a word (`port` in `api-port` and
 * `metrics-port`), else the one with the smallest edit distance, if close enough to be a typo.
 */
export function nearest(value: string, known: readonly string[]): readonly string[] {
  if (value.length > LONGEST_WORD) return [];
  const wordIn = known.filter((candidate) => candidate.split('-').includes(value));
  if (wordIn.length > 0) return wordIn;
  let best: string | undefined;
  let bestDistance = Math.max(2, Math.floor(value.length / 3)) + 1;
  for (const candidate of known) {
    const distance = editDistance(value, candidate);
    if (distance < bestDistance) {
      bestDistance = distance;
      best = candidate;
    }
  }
  return best === undefined ? [] : [best];
}

function editDistance(left: string, right: string): number {
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let row = 1; row <= left.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= right.length; column += 1) {
      const substitution = (previous[column - 1] ?? 0) + (left[row - 1] === right[column - 1] ? 0 : 1);
      current.push(Math.min(substitution, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[right.length] ?? 0;
}
