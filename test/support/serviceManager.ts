import { spawn, spawnSync } from 'node:child_process';
import { appendFileSync, chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { delimiter, join } from 'node:path';
import { atEnd } from './cleanup.js';
import { eventually, scratchDirectory, type Program } from './program.js';

/** Reads a Unix datagram socket, which Node.js cannot, and prints each message as a line of JSON. */
const RECEIVER = `
import json, socket, sys
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind(sys.argv[1])
while True:
    print(json.dumps(receiver.recv(65536).decode()), flush=True)
`;

/** In place of systemd-notify, where the machine has none, or none that can be listened to. */
const STAND_IN = `#!/bin/sh
for message; do printf '"%s"\\n' "$message" >> "$NOTIFY_SOCKET" || exit 1; done
`;

/**
 * What systemd is to `Type=notify`: hears a process, and ends it by SIGABRT without a sign of life. Where the machine has
 * systemd-notify and Python the messages go through a Unix datagram socket, elsewhere through a file.
 */
export class StandInServiceManager {
  readonly hasSocket = ['systemd-notify', 'python3'].every(
    (tool) => spawnSync(tool, ['--version']).error === undefined,
  );
  /** What it was told, in order, without the signs of life. */
  readonly told: string[] = [];
  signsOfLife = 0;
  readonly #folder = scratchDirectory();
  readonly #path = join(this.#folder, 'notify');
  readonly #watchdogMs: number;
  #watched: Program | undefined;
  #deadline: NodeJS.Timeout | undefined;

  private constructor(options: { readonly watchdogMs: number }) {
    this.#watchdogMs = options.watchdogMs;
    atEnd(() => clearTimeout(this.#deadline));
  }

  static async start(options: { readonly watchdogMs: number }): Promise<StandInServiceManager> {
    const manager = new StandInServiceManager(options);
    await manager.#listen();
    return manager;
  }

  get environment(): Record<string, string> {
    const path = this.hasSocket ? {} : { PATH: `${this.#folder}${delimiter}${process.env['PATH'] ?? ''}` };
    return { NOTIFY_SOCKET: this.#path, WATCHDOG_USEC: String(this.#watchdogMs * 1_000), ...path };
  }

  /** From now on the process has to give signs of life. */
  watch(program: Program): void {
    this.#watched = program;
    this.#wait();
  }

  async #listen(): Promise<void> {
    if (!this.hasSocket) this.#standIn();
    const [command, args]: readonly [string, string[]] = this.hasSocket
      ? ['python3', ['-c', RECEIVER, this.#path]]
      : ['tail', ['-n', '+1', '-f', this.#path]];
    const receiver = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    atEnd(() => void receiver.kill('SIGKILL'));
    createInterface({ input: receiver.stdout }).on('line', (line) => this.#hear(JSON.parse(line) as string));
    await eventually(() => existsSync(this.#path) || undefined);
  }

  #standIn(): void {
    mkdirSync(this.#folder, { recursive: true });
    const tool = join(this.#folder, 'systemd-notify');
    writeFileSync(tool, STAND_IN);
    chmodSync(tool, 0o755);
    appendFileSync(this.#path, '');
  }

  #hear(message: string): void {
    // systemd-notify waits with it until its message was read.
    if (message.startsWith('BARRIER=')) return;
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
