import { pino, stdSerializers } from 'pino';
import { withoutCredentials } from '../../runtime/index.js';
import type { Logger } from './Logger.js';

/** The program's own logger. */
export interface ProgramLogger extends Logger {
  /** Logs why the process ends: the last line. */
  fatal(fields: object, message: string): void;
  setLevel(level: LogLevel): void;
}

/** From quiet to verbose. */
export type LogLevel = 'silent' | 'error' | 'warn' | 'info' | 'debug';

/** Takes finished lines, newline included. Must not block. */
export interface LogDestination {
  write(line: string): unknown;
}

/**
 * Logs one line per event, without credentials in URLs. JSON lines have `level` by name, `time` in ISO 8601 (UTC),
 * the fields, and `msg`; an error in the field `err` or `error` is written with type, message and stack.
 */
export function createLogger(options: {
  readonly level: LogLevel;
  /** Turns a line of JSON into a line for people (`loadPrettyLine`). Default: JSON. */
  readonly toLine?: ((json: string) => string) | undefined;
  readonly destination: LogDestination;
}): ProgramLogger {
  const write = (line: string): void => {
    const clean = withoutCredentials(line);
    options.destination.write(options.toLine?.(clean) ?? clean);
  };
  const logger = pino(
    {
      level: options.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: written, error: written },
    },
    { write },
  );
  return Object.assign(logger, { setLevel: (level: LogLevel) => void (logger.level = level) });
}

/** Errors may quote other programs, a database server even megabytes; lines that wait to be written share a bound. */
const MAX_ERROR_TEXT = 8_192;

/** An error from another thread arrives serialised already. */
function written(value: unknown): unknown {
  if (!(value instanceof Error)) return value;
  const fit = (text: unknown): unknown =>
    typeof text === 'string' && text.length > MAX_ERROR_TEXT ? `${text.slice(0, MAX_ERROR_TEXT)}…` : text;
  const fields = Object.entries(stdSerializers.err(value));
  return Object.fromEntries(fields.map(([name, text]) => [name, fit(text)]));
}

/** Fields for the logger of another thread: errors are serialised. */
export function errorFields(fields: object): object {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, written(value)]));
}
