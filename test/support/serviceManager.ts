import { join } from 'node:path';
import { DgramSocket } from 'node-unix-socket';
import { atEnd } from './cleanup.js';
import type { Program } from './program.js';
import { scratchDirectory } from './program.js';

/**
 * What systemd is to a service of `Type=notify`: it reads the messages of a process, and ends it by SIGABRT when it gives no
 * sign of life for as long as the watchdog waits. Gone at the end of the test.
 */
export class StandInServiceManager {
  /** What it told, in order, without the signs of life. */
  readonly told: string[] = [];
  signsOfLife = 0;
  readonly #socket = new DgramSocket();
  readonly #path = join(scratchDirectory(), 'notify');
  readonly #watchdogMs: number;
  #watched: Program | undefined;
  #deadline: NodeJS.Timeout | undefined;

  constructor(options: { readonly watchdogMs: number }) {
    this.#watchdogMs = options.watchdogMs;
    this.#socket.bind(this.#path);
    this.#socket.on('data', (bytes: Buffer) => this.#hear(bytes.toString('utf8')));
    atEnd(() => {
      clearTimeout(this.#deadline);
      this.#socket.close();
    });
  }

  /** The environment of the service. */
  get environment(): Record<string, string> {
    return { NOTIFY_SOCKET: this.#path, WATCHDOG_USEC: String(this.#watchdogMs * 1_000) };
  }

  /** From now on the process has to give signs of life. */
  watch(program: Program): void {
    this.#watched = program;
    this.#wait();
  }

  #hear(message: string): void {
    if (message !== 'WATCHDOG=1') {
      this.told.push(message);
      return;
    }
    this.signsOfLife += 1;
    this.#wait();
  }

  #wait(): void {
    clearTimeout(this.#deadline);
    if (this.#watched === undefined) return;
    this.#deadline = setTimeout(() => this.#watched?.child.kill('SIGABRT'), this.#watchdogMs);
  }
}
