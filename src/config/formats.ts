import { isIPv6 } from 'node:net';

/**
 * How the values of a setting are written and checked. convict coerces every text, whatever its source, and then asks whether
 * the value is accepted.
 */
export interface Format<T> {
  /** What is allowed, in a few words, for documentation and messages. */
  readonly allowed: string;
  /** The word for a value in help. */
  readonly value: string;
  /** The words it allows, if any. */
  readonly words?: readonly string[];
  /** True for flags without a value. */
  readonly isSwitch?: true;
  /** True for lists: the flag is repeated, and a text is separated by commas. */
  readonly isList?: true;
  /** True if a value may contain a password, which is then never shown. */
  readonly isSensitive?: true;
  /** Converts a text to a value. Returns the text itself if it is not valid. */
  readonly coerce: (text: string) => unknown;
  readonly accepts: (value: unknown) => value is T;
}

/** A whole number within bounds. */
export function integer(min: number, max: number, value: string): Format<number> {
  return {
    allowed: `a whole number from ${min} to ${max}`,
    value,
    coerce: (text) => (/^-?\d+$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : text),
    accepts: (given) => isWhole(given, min, max),
  };
}

/** A whole number within bounds, or one of a few words. */
export function integerOr<const T extends string>(
  number: Format<number>,
  words: readonly T[],
): Format<number | T> {
  return {
    ...number,
    allowed: `${words.join(', ')} or ${number.allowed}`,
    value: [number.value, ...words].join('|'),
    words,
    accepts: (given): given is number | T => number.accepts(given) || words.some((word) => word === given),
  };
}

function isWhole(value: unknown, min: number, max: number): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max;
}

/** The word for a size in help. */
export const SIZE = 'size';
const BYTE_UNITS: readonly (readonly [name: string, bytes: number])[] = [
  ['GiB', 1024 ** 3],
  ['MiB', 1024 ** 2],
  ['KiB', 1024],
];

/** A size in bytes: a whole number, or one with a unit (KiB, MiB, GiB). */
export function byteSize(min: number, max: number): Format<number> {
  return {
    allowed: `a size from ${formatBytes(min)} to ${formatBytes(max)} (bytes, or with KiB, MiB or GiB: 128MiB)`,
    value: SIZE,
    coerce: (text) => {
      const [, digits, unit = 'B'] = /^(\d+)\s*(KiB|MiB|GiB)?$/.exec(text) ?? [];
      const bytes = Number(digits) * (BYTE_UNITS.find(([name]) => name === unit)?.[1] ?? 1);
      return Number.isSafeInteger(bytes) ? bytes : text;
    },
    accepts: (given) => isWhole(given, min, max),
  };
}

/** A size in the largest unit that gives a whole number. */
export function formatBytes(bytes: number): string {
  const unit = BYTE_UNITS.find(([, size]) => bytes >= size && bytes % size === 0);
  return unit === undefined ? String(bytes) : `${bytes / unit[1]}${unit[0]}`;
}

/** Longer lists of words go into the description instead of the flag. */
const MAX_WORDS_LENGTH = 32;
export const MANY_WORDS = 'name';

/** One of a few words. */
export function choice<const T extends string>(words: readonly T[]): Format<T> {
  return {
    allowed: `one of ${words.join(', ')}`,
    value: words.join('|').length > MAX_WORDS_LENGTH ? MANY_WORDS : words.join('|'),
    words,
    coerce: (text) => text,
    accepts: (value): value is T => words.some((word) => word === value),
  };
}

/** A switch: true or false; in a text also 1, 0, yes, no, on, off. */
export const boolean: Format<boolean> = {
  allowed: 'true or false',
  value: '',
  isSwitch: true,
  coerce: (text) => {
    if (/^(?:true|1|yes|on)$/i.test(text)) return true;
    return /^(?:false|0|no|off)$/i.test(text) ? false : text;
  },
  accepts: (value) => typeof value === 'boolean',
};

const CONTROL = /[\p{Cc}\p{Cs}]/u;

/** Any text that is not empty and has no control characters or lone surrogates, which no path or address needs. */
export function text(allowed: string, value: string): Format<string> {
  return {
    allowed,
    value,
    coerce: (written) => written,
    accepts: (given): given is string =>
      typeof given === 'string' && given.trim() !== '' && !CONTROL.test(given),
  };
}

/** The host a daemon listens on, and is called at in a URL: its port is a separate key. */
export const host: Format<string> = {
  ...text('a host name or address, without port, brackets or zone', 'host'),
  accepts: (given): given is string =>
    typeof given === 'string' &&
    !given.includes('%') &&
    (isIPv6(given) || (/^[^\s\p{Cc}:/?#@[\]\\]+$/u.test(given) && URL.canParse(`http://${given}`))),
};

/** Names that only a shell, or another program, would interpret; and U+FFFD, which Node.js puts where a name is not UTF-8. */
const NOT_REPLACED = /^(?:~(?:\/|$)|\$|-$)|:\/\/|\ufffd/;

/** The path of a file or directory, existing or to be created. `-` is refused: other programs take it as standard output. */
export function localPath(what: string, value: string): Format<string> {
  const any = text(`a ${what} of this machine (only a shell replaces ~ and $NAME)`, value);
  return { ...any, accepts: (given): given is string => any.accepts(given) && !NOT_REPLACED.test(given) };
}

/** A block by its height and id, in lower case. */
export const block: Format<string> = {
  allowed: 'a block as HEIGHT:ID, with its id in 64 hex digits',
  value: 'height:id',
  coerce: (text) => text.toLowerCase(),
  accepts: (given): given is string => typeof given === 'string' && /^\d{1,15}:[0-9a-f]{64}$/.test(given),
};

/** A list of at most `max` items, and at least `min`. */
export function list<T>(item: Format<T>, max: number, min = 0): Format<readonly T[]> {
  return {
    ...item,
    allowed: `a list of ${min === 0 ? 'at most' : `${min} to`} ${max}, each ${item.allowed}`,
    isList: true,
    coerce: (written) => {
      const parts = written.split(',').flatMap((part) => part.trim() || []);
      return parts.length === 0 ? written : parts.map((part) => item.coerce(part));
    },
    accepts: (given): given is readonly T[] =>
      Array.isArray(given) &&
      given.length >= min &&
      given.length <= max &&
      given.every((each) => item.accepts(each)),
  };
}

const MAX_ADDRESS_LENGTH = 2_048;

/** Base address of an HTTP interface: no credentials, query or fragment, and no `/` or `/v1` at its end. */
export const httpAddress: Format<string> = {
  allowed: 'an address such as https://host, or http://localhost:8070/path, to which /v1/… is added',
  value: 'url',
  isSensitive: true,
  coerce: (written) => baseOf(written) ?? written,
  accepts: (value): value is string => typeof value === 'string' && baseOf(value) === value,
};

function baseOf(written: string): string | undefined {
  if (written.length > MAX_ADDRESS_LENGTH || !/^https?:\/\/[^/\s\\?#][^\s\\?#]*$/i.test(written)) return;
  if (!URL.canParse(written)) return;
  const { hostname, origin, username, password, pathname } = new URL(written);
  const path = pathname.replace(/\/+$/, '');
  if (hostname === '' || username + password !== '' || /(?:^|\/)v1$/.test(path)) return;
  return origin + path;
}

const MAX_ORIGINS = 64;
const ANY_ORIGIN = '*';
const NO_ORIGIN = 'none';

const origin: Format<string> = {
  ...text(
    `an origin such as https://app.example or http://localhost:3000, or ${ANY_ORIGIN}, or ${NO_ORIGIN} alone`,
    'origin',
  ),
  coerce: (written) => originOf(written) ?? written,
  accepts: (value): value is string =>
    value === ANY_ORIGIN || (typeof value === 'string' && originOf(value) === value),
};

function originOf(written: string): string | undefined {
  if (!/^https?:\/\/[^/]+$/i.test(written) || !URL.canParse(written)) return;
  const { origin: normal, username, password } = new URL(written);
  return username + password === '' ? normal : undefined;
}

/** Origins of web pages as browsers write them; `*` for all; `none`, alone, for an empty list. */
export const origins: Format<readonly string[]> = {
  ...list(origin, MAX_ORIGINS),
  coerce: (written) => (written === NO_ORIGIN ? [] : list(origin, MAX_ORIGINS).coerce(written)),
};

/** The heights of a plan to fill history in, as operators write them. */
export interface HeightsToFill {
  readonly from: number | 'root' | 'everything' | { readonly spork: string };
  /** `undefined`: up to the live range. */
  readonly to: number | undefined;
}

const HEIGHTS_TO_FILL =
  /^(?:(?<word>root|everything)|spork:(?<spork>[\w.-]+?)|(?<from>\d{1,16}))(?:\.\.(?<to>\d{1,16}))?$/;

/** Parses a text of the format `heightsToFill`; `undefined` for any other text. */
export function readHeightsToFill(written: string): HeightsToFill | undefined {
  const { word, spork, from, to } = HEIGHTS_TO_FILL.exec(written)?.groups ?? {};
  const last = to === undefined ? undefined : Number(to);
  if (word === 'root' || word === 'everything') return { from: word, to: last };
  if (spork !== undefined) return { from: { spork }, to: last };
  return from === undefined ? undefined : { from: Number(from), to: last };
}

/** The start of a plan and, after two dots, its end. */
export const heightsToFill: Format<string> = {
  ...text(
    'a range of heights: FROM or FROM..TO, where FROM is a height, root, spork:NAME or everything, and TO a height',
    'heights',
  ),
  accepts: (value): value is string => {
    const read = typeof value === 'string' ? readHeightsToFill(value) : undefined;
    return read !== undefined && !(typeof read.from === 'number' && read.from > (read.to ?? Infinity));
  },
};
