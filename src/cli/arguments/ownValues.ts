import { loadSettings } from '../../config/index.js';
import type { Settings } from '../../config/index.js';
import type { Invocation } from '../command.js';

/** Loads a command's own flags, which only the command line can set. Expected errors: OperatorError `usage`. */
export function ownValuesOf<S extends Settings>(
  ownFlags: S,
  invocation: Invocation,
): ReturnType<typeof loadSettings<S>>['values'] {
  return loadSettings(ownFlags, { file: undefined, environment: {}, flags: invocation.flags }).values;
}
