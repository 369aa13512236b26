import { quoted, shortened, withoutCredentials, withoutUrlPaths } from '../../runtime/index.js';
import { FormatError } from './FormatError.js';

/** How a setting's value is written, checked and described. */
export interface Format<T> {
  /** What is allowed, in a few words, for documentation and error messages. */
  readonly allowed: string;
  /** True for flags without a value. */
  readonly isSwitch?: boolean;
  /** The words that it allows, if any. */
  readonly words?: readonly string[];
  /** True for lists: the flag is repeated, the environment variable is separated by commas. */
  readonly isList?: boolean;
  /** Parses a flag or an environment variable. Expected errors: FormatError. */
  parse(text: string): T;
  /** Checks a value from a configuration file. Expected errors: FormatError. */
  check(value: unknown): T;
}

/** Throws the error for a value that a format does not allow. */
export function refuse(value: unknown, allowed: string): never {
  const shown =
    typeof value === 'string'
      ? quoted(withoutCredentials(value))
      : shortened(withoutUrlPaths(withoutCredentials(JSON.stringify(value))));
  throw new FormatError(`${shown} is not ${allowed}`);
}
