import { refuse } from './Format.js';
import type { Format } from './Format.js';
import { text } from './words.js';

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
