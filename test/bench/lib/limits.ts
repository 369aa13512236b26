import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { forNode } from '../../../scripts/bundle.mjs';
import { eachLine, freshDirectory, ownTask, ROOT, startTask } from './processes.js';

export interface LimitTask {
  readonly node: string;
  readonly heights: number;
  /** How often a stream is read from its beginning, one time after the other. Default: once. */
  readonly passes?: number;
  /** The stream of full blocks in place of the one of execution data. */
  readonly fullBlocks?: boolean;
  readonly path: string;
}

/** The limit programs, and the reader of the access layer, which is compared with one of them. */
export type Limit = 'accessReader' | 'bareDrain' | 'idealPipeline' | 'idealRequester';

/** Runs a limit program in a process of its own, which ends with it. Resolves with heights per second. */
export async function runLimit(limit: Limit, task: Omit<LimitTask, 'path'>): Promise<number> {
  const path = freshDirectory();
  const child = startTask(`limits/${limit}.ts`, { ...task, path });
  let printed = '';
  const exited = once(child, 'exit') as Promise<[number | null]>;
  await eachLine(child, (line) => (printed = line));
  const [code] = await exited;
  rmSync(path, { recursive: true });
  if (code !== 0) throw new Error(`the limit ${limit} ended with ${String(code)}`);
  return Number(printed);
}

export const limitTask = (): LimitTask => ownTask() as LimitTask;

/** Within a limit program: measures from the first message to the end of all work. */
export class LimitWatch {
  #startedAtMs: number | undefined;

  start(): void {
    this.#startedAtMs ??= performance.now();
  }

  finish(heights: number): never {
    process.stdout.write(`${(heights * 1_000) / (performance.now() - (this.#startedAtMs ?? Number.NaN))}\n`);
    process.exit(0);
  }
}

/** A file of `src`, built as the program that is measured: what tsx makes of it is not quite as fast. */
export async function built(path: string): Promise<unknown> {
  // Below `dist`, where packages are found; the next build removes it.
  const outfile = resolve(ROOT, 'dist/bench', `${process.pid}-${path.replaceAll('/', '-')}.mjs`);
  await build({ ...forNode, entryPoints: [join('src', path)], outfile });
  return import(pathToFileURL(outfile).href);
}
