import { fork, type ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { processorMs } from './processFiles.js';
import { refuse } from './scriptOptions.js';

export const WORKERS = String(Math.min(2, availableParallelism()));

export class Verdict extends Error {
  override readonly name = 'Verdict';
}

/** Expected errors: `Verdict`. */
export function demand(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Verdict(what);
}

export interface Played {
  readonly name: string;
  readonly seconds: number;
  /** `null`: what was promised has been kept. */
  readonly failure: string | null;
}

/** Those that `isWanted`, by their names; where there is none, the names that there are, and the end of the script. */
export function chosenFrom<T extends { readonly name: string }>(
  all: readonly T[],
  only: string | undefined,
  isWanted: (name: string, only: string) => boolean = (name) => name === only,
): readonly T[] {
  const chosen = only === undefined ? all : all.filter(({ name }) => isWanted(name, only));
  if (chosen.length > 0) return chosen;
  return refuse(`There is no ${only}. There are: ${all.map(({ name }) => name).join(', ')}.`);
}

/** The value of a flag that takes a whole number. */
export function wholeNumber(flag: string, text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  return refuse(`--${flag} takes a whole number, got ${JSON.stringify(text)}`);
}

/** Plays scenes one after the other, and tells of each as it ends; `play` resolves with what there is to say of it. */
export async function playEach<T extends { readonly name: string }>(
  scenes: readonly T[],
  play: (scene: T) => string | Promise<string>,
  { again }: { readonly again?: (scene: T) => string } = {},
): Promise<Played[]> {
  const played: Played[] = [];
  const width = Math.max(...scenes.map(({ name }) => name.length));
  for (const scene of scenes) {
    const startedAtMs = performance.now();
    let failure: string | null = null;
    let words = '';
    try {
      words = await play(scene);
    } catch (error) {
      failure = textOf(error);
    }
    const seconds = Math.round((performance.now() - startedAtMs) / 100) / 10;
    played.push({ name: scene.name, failure, seconds });
    const outcome = failure === null ? words : `FAILED: ${failure}`;
    process.stdout.write(`${scene.name.padEnd(width)} ${seconds.toFixed(1).padStart(6)} s  ${outcome}\n`);
    if (failure !== null && again !== undefined) process.stdout.write(`  ${again(scene)}\n`);
  }
  return played;
}

/** Where an error of ours comes from is its message; where any other does is its stack. */
export function textOf(error: unknown): string {
  if (error instanceof Verdict) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** What a campaign came to: docs/reliability.md tells it. */
export interface Outcome {
  /** How often the promise was put to the test. */
  readonly runs: number;
  readonly failures: number;
  /** What was counted: `seeds`, `crashes` … */
  readonly unit: string;
  /** In a few words, what else is worth knowing. */
  readonly remark?: string;
}

export function outcomeOf(played: readonly Played[], unit: string): Outcome {
  return { runs: played.length, failures: played.filter(({ failure }) => failure !== null).length, unit };
}

/** The end of a campaign: its report, where one is asked for, with `more` in it, and exit code 1 if something failed. */
export function conclude(outcome: Outcome, file?: string, more: object = {}): void {
  const { failures, remark, runs, unit } = outcome;
  const words = remark === undefined ? '' : `; ${remark}`;
  process.stdout.write(`${runs.toLocaleString('en')} ${unit}, ${failures} failed${words}\n`);
  if (file !== undefined) writeFileSync(file, `${JSON.stringify({ ...outcome, ...more }, undefined, 2)}\n`);
  if (failures > 0) process.exitCode = 1;
}

interface Message {
  readonly number: number;
  readonly content: unknown;
}

interface Asked<Result> {
  readonly resolve: (result: Result) => void;
  readonly reject: (error: Error) => void;
}

/** Of what a process wrote before it ended: enough for a stack. */
const LAST_WORDS_CHARACTERS = 4_000;

const LANE = 'CAMPAIGN_LANE';

/** This process is one of those that do the work: it calls `serveWork`. */
export const isLane = process.env[LANE] !== undefined;

/** This script once more, with the same flags, in a process that does what it is asked. */
export class Worker<Task, Result> {
  readonly #child: ChildProcess;
  readonly #asked = new Map<number, Asked<Result>>();
  #count = 0;
  #ended: Error | undefined;

  constructor() {
    const stdio = ['ignore', 'inherit', 'pipe', 'ipc'] as const;
    const env = { ...process.env, [LANE]: 'yes' };
    this.#child = fork(process.argv[1] ?? '', process.argv.slice(2), { env, stdio: [...stdio] });
    let lastWords = '';
    this.#child.stderr?.on('data', (data: Buffer) => {
      process.stderr.write(data);
      lastWords = (lastWords + data.toString()).slice(-LAST_WORDS_CHARACTERS);
    });
    this.#child.on('message', ({ number, content }: Message) => {
      this.#asked.get(number)?.resolve(content as Result);
      this.#asked.delete(number);
    });
    this.#child.once('close', (code, signal) => {
      const error = lastWords.split('\n').find((line) => line.includes('Error')) ?? 'it says nothing';
      const ended = new Error(`the process that does the work ended with ${code ?? signal}: ${error}`);
      this.#ended ??= ended;
      for (const { reject } of this.#asked.values()) reject(ended);
    });
  }

  get hasEnded(): boolean {
    return this.#ended !== undefined;
  }

  /** Several at once are done at once. Rejects when the process ends before. */
  ask(task: Task): Promise<Result> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    const number = (this.#count += 1);
    return new Promise((resolve, reject) => {
      this.#asked.set(number, { resolve, reject });
      this.#child.send({ number, content: task } satisfies Message);
    });
  }

  close(): void {
    if (this.#child.connected) this.#child.disconnect();
  }

  /** Its processor time so far; NaN where the system does not tell. */
  processorMs(): number {
    return processorMs(this.#child.pid ?? 0);
  }

  /** Where it does not listen any more. */
  kill(): void {
    this.#child.kill('SIGKILL');
    this.#ended ??= new Error('the process that does the work was killed');
  }
}

/** The other side. What `work` does not catch ends the process; where nobody asks any more it ends, after `close`. */
export function serveWork(
  work: (task: never) => Promise<unknown>,
  close = async (): Promise<void> => {},
): void {
  const leave = (): void => void close().finally(() => process.exit());
  process.on('disconnect', leave);
  // There was nothing left to do before this process could listen.
  if (!process.connected) leave();
  process.on('message', ({ number, content }: Message) => {
    void work(content as never).then((result) => process.send?.({ number, content: result }));
  });
}

/** Two tasks of a process do not begin in the same moment: the start is what costs. */
const BETWEEN_STARTS_MS = 150;

/** Has processes do tasks until none is left, also those that come meanwhile. `tasksPerProcess`: each leaves something behind. */
export async function workOff<Task, Asked, Result>(
  tasks: Task[],
  how: { readonly workers: string; readonly atOnce?: number; readonly tasksPerProcess?: number },
  play: (task: Task, worker: Worker<Asked, Result>) => Promise<void>,
): Promise<void> {
  const { workers, atOnce = 1, tasksPerProcess = Infinity } = how;
  const lane = async (): Promise<void> => {
    while (tasks.length > 0) {
      const worker = new Worker<Asked, Result>();
      let left = tasksPerProcess;
      const slot = async (_: unknown, index: number): Promise<void> => {
        await new Promise((resolve) => setTimeout(resolve, index * BETWEEN_STARTS_MS));
        while (left > 0 && !worker.hasEnded) {
          const task = tasks.shift();
          if (task === undefined) return;
          left -= 1;
          await play(task, worker);
        }
      };
      await Promise.all(Array.from({ length: atOnce }, slot));
      worker.close();
    }
  };
  await Promise.all(Array.from({ length: wholeNumber('workers', workers) }, lane));
}
