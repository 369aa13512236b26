import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atEnd } from './cleanup.js';

const root = join(import.meta.dirname, '../..');

/** The built program: `npm test` builds before it runs. */
export const programPath = join(root, 'dist', 'main.js');

export class Printed {
  stdout = '';
  stderr = '';
  readonly #watchers = new Set<() => void>();
  #ended = false;

  /** Resolves with the match once it stands in either output; rejects when the run ends without it. */
  async sees(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.stdout) ?? pattern.exec(this.stderr);
      if (match !== null) return match;
      if (this.#ended) throw new Error(`ended without ${String(pattern)}:\n${this.stdout}\n${this.stderr}`);
      await new Promise<void>((resolve) => this.#watchers.add(resolve));
    }
  }

  logs(): Record<string, unknown>[] {
    return this.stdout
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  protected get hasEnded(): boolean {
    return this.#ended;
  }

  protected print(output: 'stdout' | 'stderr', text: string): void {
    this[output] += text;
    this.#wake();
  }

  protected end(): void {
    this.#ended = true;
    this.#wake();
  }

  #wake(): void {
    for (const resolve of this.#watchers) resolve();
    this.#watchers.clear();
  }
}

export interface RunAs {
  /** A command that is given the program's own command line, and runs it. */
  readonly wrapper?: readonly string[];
  /** Another program of this repository, with what Node.js needs to run it. */
  readonly script?: readonly string[];
  readonly stdin?: 'ignore' | 'pipe';
  /** In a process group of its own. */
  readonly detached?: boolean;
  readonly outputs?: readonly ['pipe' | number | Socket, 'pipe' | number | Socket];
}

export class Program extends Printed {
  readonly child: ChildProcess;
  /** The exit code, or the signal that ended it. */
  readonly exited: Promise<number | string>;

  constructor(
    args: readonly string[],
    environment: Readonly<Record<string, string>> = {},
    {
      wrapper = [],
      script = [programPath],
      stdin = 'ignore',
      outputs = ['pipe', 'pipe'],
      detached = false,
    }: RunAs = {},
  ) {
    super();
    const inherited = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !name.startsWith('FCI_')),
    );
    const [command = process.execPath, ...rest] = [...wrapper, process.execPath, ...script, ...args];
    this.child = spawn(command, rest, {
      cwd: root,
      env: { ...inherited, ...environment },
      stdio: [stdin, ...outputs],
      detached,
    });
    for (const output of ['stdout', 'stderr'] as const)
      this.child[output]?.setEncoding('utf8').on('data', (chunk: string) => this.print(output, chunk));
    this.exited = new Promise((resolve) => {
      this.child.once('close', (code, signal) => {
        this.end();
        resolve(code ?? signal ?? 'unknown');
      });
    });
  }

  type(keys: string): void {
    this.child.stdin?.write(keys);
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | string> {
    if (!this.hasEnded) this.child.kill(signal);
    return this.exited;
  }
}

/** Starts the program, or what stands in its place; it is killed at the end of the test whatever happens. */
export function startProgram(
  args: readonly string[],
  environment?: Readonly<Record<string, string>>,
  as?: RunAs,
): Program {
  const program = new Program(args, environment, as);
  atEnd(() => program.stop('SIGKILL'));
  return program;
}

export async function runProgram(
  args: readonly string[],
  environment?: Readonly<Record<string, string>>,
  as?: RunAs,
): Promise<{ readonly code: number | string; readonly stdout: string; readonly stderr: string }> {
  const program = startProgram(args, environment, as);
  const code = await program.exited;
  return { code, stdout: program.stdout, stderr: program.stderr };
}

/** An empty directory that is removed at the end of the test. */
export function scratchDirectory(): string {
  const path = mkdtempSync(join(tmpdir(), 'fci-'));
  atEnd(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Between two looks: a fifth of the time that has passed already, within these bounds. */
const LOOK_PAUSE_MIN_MS = 20;
const LOOK_PAUSE_MAX_MS = 250;

/** Asks until `read` gives a value; `false` is none. Less and less often: a look costs whoever is asked, too. */
export async function eventually<T>(
  read: () => Promise<T | false | undefined> | T | false | undefined,
): Promise<T> {
  const beganAtMs = performance.now();
  for (;;) {
    const value = await read();
    if (value !== undefined && value !== false) return value;
    const pauseMs = (performance.now() - beganAtMs) / 5;
    await new Promise((resolve) =>
      setTimeout(resolve, Math.min(Math.max(pauseMs, LOOK_PAUSE_MIN_MS), LOOK_PAUSE_MAX_MS)),
    );
  }
}

export async function until(holds: () => Promise<boolean> | boolean): Promise<void> {
  await eventually(async () => ((await holds()) ? true : undefined));
}
