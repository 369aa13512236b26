import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { OperatorError, quoted, sleep, systemClock } from '../../../runtime/index.js';

/** How long a program may take to end after its input ends, to finish and acknowledge its work. Then it gets SIGTERM. */
const LAST_WORK_MS = 5_000;
/** From SIGTERM to SIGKILL. */
const TERM_MS = 2_000;

export interface SinkCommand {
  readonly program: string;
  readonly args: readonly string[];
}

/** A program that is fed lines, and writes lines back. Its standard error is ours. */
export class SinkProgram {
  /** Resolves with how it ended, in words that complete "The program …". */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;
  #isOver = false;

  private constructor(child: ChildProcess, onLine: (line: string) => void) {
    this.#child = child;
    // `ended` reports a program that has ended.
    child.stdin?.on('error', () => undefined);
    if (child.stdout !== null) createInterface({ input: child.stdout }).on('line', onLine);
    this.ended = new Promise((resolve) => {
      child.once('close', (code, signal) => {
        this.#isOver = true;
        resolve(signal === null ? `ended with code ${code}` : `was ended by ${signal}`);
      });
    });
  }

  /** Expected errors: OperatorError `usage` for one that cannot be run. */
  static start({ program, args }: SinkCommand, onLine: (line: string) => void): Promise<SinkProgram> {
    return new Promise((resolve, reject) => {
      const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
      child.once('error', (error) => {
        const message = `The program ${quoted(program)} of --exec cannot be run: ${error.message}. Name an existing executable.`;
        reject(new OperatorError('usage', message, { cause: error }));
      });
      child.once('spawn', () => resolve(new SinkProgram(child, onLine)));
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Resolves once the pipe has taken the bytes, or the program has ended. */
  write(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      const { stdin } = this.#child;
      if (stdin === null || this.#isOver) resolve();
      else stdin.write(bytes, () => resolve());
    });
  }

  /** Ends its input and lets it finish; after the time limits, signals it to end. */
  async end(): Promise<void> {
    this.#child.stdin?.end();
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      const limitMs = signal === 'SIGTERM' ? LAST_WORK_MS : TERM_MS;
      const waiting = new AbortController();
      const isLate = sleep(systemClock, limitMs, waiting.signal).then(
        () => true,
        () => false,
      );
      const late = await Promise.race([this.ended.then(() => false), isLate]);
      waiting.abort();
      if (!late) return;
      this.#child.kill(signal);
    }
    await this.ended;
  }

  /** Kills it at once. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.ended;
  }
}
