import type { Settings, ValuesOf } from '../config/index.js';
import type { TerminalStream } from '../observability/index.js';
import { messageOf, OperatorError, readNamedFile, type ExitReason, type Output } from '../runtime/index.js';

/** The process around a command: everything it can print to or read from. */
export interface Terminal {
  out(text: string): void;
  err(text: string): void;
  /**
   * Writes to standard output. Resolves once this, and all before it, is written; false: the reader has gone. Expected errors:
   * OperatorError (`storage`); AbortError when a signal has ended the command and the reader is stalled.
   */
  write(bytes: Uint8Array): Promise<boolean>;
  /** Standard output and standard error, for a process that must not wait for their readers. */
  readonly outputs: readonly [Output, Output];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly isTerminal: boolean;
  /** True when that terminal supports colours and cursor movement: any but TERM=dumb. */
  readonly isLive: boolean;
  readonly columns: () => number;
  readonly rows: () => number;
  /** Standard error, when that is such a terminal. */
  readonly errTerminal: TerminalStream | undefined;
  /**
   * Calls back for each key pressed, without waiting for Enter, until the returned function is called. Does
   * nothing where standard input is not a terminal.
   */
  onKey(listener: (key: string) => void): () => void;
  /** Calls back with an unexpected error, just before it ends the process. */
  onBug(listener: (error: unknown) => void): void;
  /**
   * Calls back at each SIGHUP that asks to reload the configuration. After that, a SIGHUP ends the command only when it
   * means that the terminal is gone.
   */
  onReload(listener: () => void): void;
  /** Aborted by a signal; the reason's message is the signal's name. */
  readonly signal: AbortSignal;
}

export interface Invocation<Own extends Settings = Settings> {
  readonly positionals: readonly string[];
  readonly configFile: string | undefined;
  /** Flags as written, by the key that they set. */
  readonly written: ReadonlyMap<string, readonly string[]>;
  readonly flags: ValuesOf<Own>;
}

export type Run<Own extends Settings = Settings> = (
  invocation: Invocation<Own>,
  terminal: Terminal,
) => Promise<ExitReason>;

/**
 * One command. Help and completion are generated from this description, so they always match. The code is loaded
 * when the command runs.
 */
export interface Command {
  readonly name: string;
  readonly summary: string;
  /** Positional arguments: each as the usage line shows it, or the words that are allowed. */
  readonly positionals: readonly (string | readonly string[])[];
  readonly details?: string;
  /** Configuration keys that this command takes as flags. */
  readonly settings: Settings;
  /** The command's own flags: no configuration key, no environment variable. */
  readonly ownFlags: Settings;
  load(): Promise<Run<never>>;
}

export function wrongUse(message: string): OperatorError {
  return new OperatorError('usage', message);
}

/** Reads what an argument names; `-`: standard input. Expected errors: OperatorError `usage`. */
export function readArgument(file: string, what = ''): string {
  try {
    return readNamedFile(file === '-' ? 0 : file, { mayBePipe: true }).toString();
  } catch (error) {
    throw wrongUse(`Cannot read ${what}${file}: ${messageOf(error)}.`);
  }
}

/** The positional arguments of a command as the usage line shows them. */
export function shownPositionals({ positionals }: Command): readonly string[] {
  return positionals.map((each) => (typeof each === 'string' ? each : each.join('|'))).filter(Boolean);
}
