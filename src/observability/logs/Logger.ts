/**
 * The logger that all rooms use: constant messages, data in fields. pino's logger fits. Warnings are logged when
 * something changes, not on each repetition; ids only at debug.
 */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

/** A message fit for the log at any level: ids are for the debug log. */
export function withoutIds(message: string): string {
  return message.replace(/\b[0-9a-f]{64}\b/gi, '…');
}
