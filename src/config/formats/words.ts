import { refuse } from './Format.js';
import type { Format } from './Format.js';

/** One of a few words. */
export function choice<const T extends string>(words: readonly T[]): Format<T> {
  const allowed = `one of ${words.join(', ')}`;
  const check = (value: unknown): T => words.find((word) => word === value) ?? refuse(value, allowed);
  return { allowed, words, check, parse: check };
}

/** A subset of a few words: separated by commas, a repeated flag, or an array in a file. */
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

/** Any text that is not empty and has no control characters, which no path or address needs. */
export function text(allowed: string): Format<string> {
  const check = (value: unknown): string =>
    typeof value === 'string' && value.trim() !== '' && !CONTROL.test(value) ? value : refuse(value, allowed);
  return { allowed, check, parse: check };
}
