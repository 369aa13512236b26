import type { Logger } from '../../src/observability/index.js';

export interface LogRecord {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export class RecordingLogger implements Logger {
  readonly records: LogRecord[] = [];

  debug(fields: object, message: string): void {
    this.#add('debug', fields, message);
  }

  info(fields: object, message: string): void {
    this.#add('info', fields, message);
  }

  warn(fields: object, message: string): void {
    this.#add('warn', fields, message);
  }

  error(fields: object, message: string): void {
    this.#add('error', fields, message);
  }

  messages(): string[] {
    return this.records.map(({ message }) => message);
  }

  of(level: LogRecord['level']): LogRecord[] {
    return this.records.filter((record) => record.level === level);
  }

  #add(level: LogRecord['level'], fields: object, message: string): void {
    this.records.push({ level, message, fields: { ...fields } });
  }
}
