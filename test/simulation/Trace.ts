import type { Clock } from '../../src/runtime/index.js';
import type { Logger } from '../../src/observability/index.js';

const TAIL_EVENTS = 12;

/** Everything that happens in a run, as a running hash; two runs of one seed have the same. */
export class Trace {
  readonly #clock: Clock;
  readonly #print: ((line: string) => void) | undefined;
  readonly #tail: string[] = [];
  #low = 0x811c_9dc5;
  #high = 0x1234_5678;
  events = 0;

  constructor(clock: Clock, print?: (line: string) => void) {
    this.#clock = clock;
    this.#print = print;
  }

  get isVerbose(): boolean {
    return this.#print !== undefined;
  }

  add(event: string): void {
    const line = `${this.#clock.monotonic().toFixed(3)} ${event}`;
    for (let at = 0; at < line.length; at++) {
      const code = line.charCodeAt(at);
      this.#low = Math.imul(this.#low ^ code, 0x0100_0193);
      this.#high = Math.imul(this.#high ^ code, 0x0001_0dcd) + at;
    }
    this.events += 1;
    this.#print?.(line);
    this.#tail.push(line);
    if (this.#tail.length > TAIL_EVENTS) this.#tail.shift();
  }

  hash(): string {
    return [this.#high, this.#low].map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
  }

  tail(): readonly string[] {
    return this.#tail;
  }

  /** Log messages are part of the trace; their fields are printed when somebody looks. */
  logger(): Logger {
    const write = (level: string) => (fields: object, message: string) =>
      this.add(`log ${level} ${message}${this.isVerbose ? ` ${fieldsText(fields)}` : ''}`);
    return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
  }
}

function fieldsText(fields: object): string {
  return JSON.stringify(fields, (_, value: unknown) => (value instanceof Error ? value.message : value));
}
