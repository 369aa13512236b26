import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { forNode } from '../../../scripts/bundle.mjs';
import { eachLine, ROOT, scratch, startScript } from './processes.js';
import { mainThreadMs } from './threadTime.js';

/** What a limit program is told, as its only argument. */
export interface LimitOptions {
  /** `host:port` of the simulated node. */
  readonly node: string;
  /** Heights 1 … `heights`. */
  readonly heights: number;
  /** Of unary calls. */
  readonly concurrency?: number;
  /** How often a stream is read from its beginning, one time after the other. Default: once. */
  readonly passes?: number;
  /** Which streams a bare drain reads. */
  readonly streams?: readonly ('blocks' | 'executionData')[];
  /** A directory of the run's own. */
  readonly path: string;
}

/** What it prints when it is through. */
export interface LimitRun {
  readonly heightsPerSecond: number;
  /** Of the processor, in all threads. */
  readonly userMsPerHeight: number;
  /** Of its main thread alone, user and system, as the kernel counts it. */
  readonly mainThreadMsPerHeight: number;
}

/** The limit programs, and the reader of the access layer, which is compared with one of them. */
export type Limit = 'accessReader' | 'bareDrain' | 'bareUnary' | 'idealPipeline' | 'idealRequester' | 'naive';

/** Runs a limit program in a process of its own, which ends with it. */
export async function runLimit(limit: Limit, options: Omit<LimitOptions, 'path'>): Promise<LimitRun> {
  const path = mkdtempSync(join(scratch, 'limit-'));
  const child = startScript(`test/bench/limits/${limit}.ts`, [JSON.stringify({ ...options, path })]);
  let printed = '';
  const exited = once(child, 'exit') as Promise<[number | null]>;
  await eachLine(child, (line) => (printed = line));
  const [code] = await exited;
  rmSync(path, { recursive: true });
  if (code !== 0) throw new Error(`the limit ${limit} ended with ${String(code)}`);
  return JSON.parse(printed) as LimitRun;
}

/** Within a limit program: what it was told. */
export function limitOptions(): LimitOptions {
  return JSON.parse(process.argv[2] ?? '{}') as LimitOptions;
}

/** Within a limit program: measures from the first message to the end of all work. */
export class LimitWatch {
  #startedAtMs: number | undefined;
  #usage = process.cpuUsage();
  #mainThreadMs = Number.NaN;

  /** Called with every message; the first one counts. */
  start(): void {
    if (this.#startedAtMs !== undefined) return;
    this.#startedAtMs = performance.now();
    this.#usage = process.cpuUsage();
    this.#mainThreadMs = mainThreadMs(process.pid) ?? Number.NaN;
  }

  /** Prints what `runLimit` reads and ends the process. */
  finish(heights: number): never {
    const seconds = (performance.now() - (this.#startedAtMs ?? Number.NaN)) / 1000;
    const run: LimitRun = {
      heightsPerSecond: heights / seconds,
      userMsPerHeight: process.cpuUsage(this.#usage).user / 1000 / heights,
      mainThreadMsPerHeight: ((mainThreadMs(process.pid) ?? Number.NaN) - this.#mainThreadMs) / heights,
    };
    process.stdout.write(`${JSON.stringify(run)}\n`);
    process.exit(0);
  }
}

/**
 * A file of `src`, built as the program that is measured: what tsx makes of the same source on the way is not quite as fast.
 * Its type is that of the source.
 */
export async function built(path: string): Promise<unknown> {
  return import(pathToFileURL(await builtFile(path)).href);
}

/** The same, for those who load it elsewhere. */
export async function builtFile(path: string): Promise<string> {
  // Below `dist`, where packages are found; the next build removes it.
  const outfile = resolve(ROOT, 'dist/bench', `${process.pid}-${path.replaceAll('/', '-')}.mjs`);
  await build({ ...forNode, entryPoints: [join('src', path)], outfile });
  return outfile;
}
