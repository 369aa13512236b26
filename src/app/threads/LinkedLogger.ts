import type { Logger, LogLevel } from '../../observability/index.js';
import { errorFields } from '../../observability/index.js';
import type { FromReader } from './messages.js';

/** Log records at most between two answers of the other thread; further ones are dropped. */
export const MAX_RECORDS_UNDER_WAY = 1_000;

const levels = ['debug', 'info', 'warn', 'error'] as const;
type Level = (typeof levels)[number];

function rankOf(level: LogLevel): number {
  return level === 'silent' ? levels.length : levels.indexOf(level);
}

/** A logger whose records another thread writes. */
export class LinkedLogger implements Logger {
  #least: number;
  readonly #post: (message: FromReader) => void;
  #underWay = 0;
  #dropped = 0;
  readonly debug = this.#as('debug');
  readonly info = this.#as('info');
  readonly warn = this.#as('warn');
  readonly error = this.#as('error');

  constructor(
    options: { readonly level: LogLevel },
    dependencies: { readonly post: (message: FromReader) => void },
  ) {
    this.#least = rankOf(options.level);
    this.#post = dependencies.post;
  }

  setLevel(level: LogLevel): void {
    this.#least = rankOf(level);
  }

  /** The other thread answered: it has taken everything sent before. */
  taken(): void {
    this.#underWay = 0;
    if (this.#dropped === 0) return;
    const records = this.#dropped;
    this.#dropped = 0;
    this.#post({ kind: 'logLost', records });
  }

  #as(level: Level) {
    return (fields: object, message: string): void => {
      if (levels.indexOf(level) < this.#least) return;
      if (this.#underWay >= MAX_RECORDS_UNDER_WAY) {
        this.#dropped += 1;
        return;
      }
      this.#underWay += 1;
      this.#post({ kind: 'log', level, fields: errorFields(fields), message });
    };
  }
}
