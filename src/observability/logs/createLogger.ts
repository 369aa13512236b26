import { pino, stdSerializers } from 'pino';
import { withoutCredentials } from '../../runtime/index.js';
import { prettyLine } from './prettyLine.js';

/**
 * What the rooms need of a logger: constant messages, data in fields. pino's logger fits. Warnings fire on the edge of
 * a change, not on each repetition; ids are logged at debug only.
 */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** The logger of the program as a whole. */
export interface ProgramLogger extends Logger {
  /** The last line: why the process ends. */
  fatal(fields: object, message: string): void;
}

/** From quiet to talkative. */
export type LogLevel = 'silent' | 'error' | 'warn' | 'info' | 'debug';

/** `json` for machines, `pretty` for a person at a terminal. */
export type LogFormat = 'json' | 'pretty';

/** Where finished lines go, each ending in a newline. Must write at once: nothing is flushed at exit. */
export interface LogDestination {
  write(line: string): void;
}

export interface LoggerOptions {
  readonly level: LogLevel;
  readonly format: LogFormat;
  /** Colours of the pretty format. Default: none. */
  readonly colorize?: boolean;
  /** Default: standard output, written synchronously, so that no line is lost however the process ends. */
  readonly destination?: LogDestination;
}

/**
 * One line per event, credentials in URLs left out. JSON lines have `level` as a name, `time` in ISO 8601 (UTC), the fields, and `msg`; an error in
 * the field `err` or `error` is written with type, message and stack.
 */
export function createLogger(options: LoggerOptions): ProgramLogger {
  const out = options.destination ?? pino.destination({ dest: 1, sync: true });
  const format =
    options.format === 'pretty' ? prettyLine({ colorize: options.colorize ?? false }) : undefined;
  const write = (line: string): void => {
    const clean = withoutCredentials(line);
    out.write(format === undefined ? clean : format(clean));
  };
  return pino(
    {
      level: options.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: written, error: written },
    },
    { write },
  );
}

/** An error of another thread comes as the object that it is written as. */
function written(value: unknown): unknown {
  return value instanceof Error ? stdSerializers.err(value) : value;
}

/** Fields for a logger of another thread: errors as they are written. */
export function errorFields(fields: object): object {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      value instanceof Error ? { ...stdSerializers.err(value) } : value,
    ]),
  );
}

/** Says nothing; for callers that want no log. */
export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
