import type { Settings } from '../config/index.js';
import type { TerminalStream } from '../observability/index.js';
import type { ExitReason } from '../runtime/index.js';

/** The process around a command: everything it may print to or read from. */
export interface Terminal {
  out(text: string): void;
  err(text: string): void;
  /**
   * Writes to standard output, for what is too much to be held: resolves once it was taken, with false when nobody reads
   * any more. Not to be mixed with `out`. Expected errors: OperatorError (`storage`).
   */
  write(bytes: Uint8Array): Promise<boolean>;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** True when standard output is a terminal. */
  readonly isTerminal: boolean;
  /** True when that terminal knows colours and how to move the cursor: any but TERM=dumb. */
  readonly isLive: boolean;
  readonly columns: () => number;
  /** Lines of the terminal. */
  readonly rows: () => number;
  /** Standard error, when that is such a terminal. */
  readonly errTerminal: TerminalStream | undefined;
  /**
   * Tells of keys as they are pressed, without Enter, until the function that it gives back is called. Nothing where standard
   * input is no terminal.
   */
  onKey(listener: (key: string) => void): () => void;
  /** Tells of an error that nobody expected, just before it ends the process. */
  onBug(listener: (error: unknown) => void): void;
  /** Aborted by a signal, whose name is the message of the reason. */
  readonly signal: AbortSignal;
}

/** What was written on the command line, split by where it belongs. */
export interface Invocation {
  readonly positionals: readonly string[];
  /** Path given with `--config`. */
  readonly configFile: string | undefined;
  /** Flags of the configuration keys that the command takes, by key. */
  readonly settingFlags: ReadonlyMap<string, readonly string[]>;
  /** Flags of the command itself, by key. */
  readonly ownFlags: ReadonlyMap<string, readonly string[]>;
}

/** What a command does. */
export type Run = (invocation: Invocation, terminal: Terminal) => Promise<ExitReason>;

/**
 * One command: its help and its completion are made from this description, so they cannot differ from what it takes. What it needs
 * to run is loaded when it runs.
 */
export interface Command {
  readonly name: string;
  readonly summary: string;
  /** Positional arguments as shown in the usage line; empty for none. */
  readonly positionals: string;
  readonly maxPositionals: number;
  /** What the first positional argument may be, where it is one of a few words. */
  readonly words?: readonly string[];
  /** Longer help, after the summary. */
  readonly details?: string;
  /** Configuration keys that this command takes as flags. */
  readonly settings: Settings;
  /** Flags that only this command knows; they have no key and no environment variable. */
  readonly ownFlags: Settings;
  load(): Promise<Run>;
}
