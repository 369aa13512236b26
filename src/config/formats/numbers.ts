import { refuse } from './Format.js';
import type { Format } from './Format.js';

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

/** A number, or one of a few words. */
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
