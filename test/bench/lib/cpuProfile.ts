import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import type { SourceMapPayload } from 'node:module';
import { fileURLToPath } from 'node:url';

/** What V8 writes with --cpu-prof, as far as it is read here. Times are microseconds. */
export interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: {
      readonly functionName: string;
      readonly url: string;
      readonly lineNumber: number;
      readonly columnNumber: number;
    };
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** The time in one function itself, not in what it calls. */
export interface SelfTime {
  readonly name: string;
  /** Where it stands: a folder of `src`, a package, `node`, or `v8` for what is no JavaScript. */
  readonly room: string;
  /** File and line of the source; empty for what has none. */
  readonly place: string;
  selfUs: number;
}

/** Self time by function, the longest first. The program's waiting is left out: it is no work. */
export function selfTimes({ nodes, samples, timeDeltas }: CpuProfile): SelfTime[] {
  const sources = new Sources();
  const byFunction = new Map<string, SelfTime>();
  const byNode = new Map<number, SelfTime>();
  for (const { id, callFrame } of nodes) {
    const { functionName } = callFrame;
    const { path, line } = sources.origin(callFrame);
    const name = functionName === '' ? '(anonymous)' : functionName;
    const place = path === '' ? '' : `${path}:${line + 1}`;
    const key = `${name} ${place}`;
    const time = byFunction.get(key) ?? { name, room: roomOf(path, functionName), place, selfUs: 0 };
    byFunction.set(key, time);
    byNode.set(id, time);
  }
  for (const [index, id] of samples.entries()) {
    const time = byNode.get(id);
    if (time !== undefined && time.name !== '(idle)') time.selfUs += Math.max(0, timeDeltas[index] ?? 0);
  }
  return [...byFunction.values()].sort((left, right) => right.selfUs - left.selfUs);
}

/** Where the code of built files stands in `src` and in packages, by the maps beside them. */
class Sources {
  readonly #maps = new Map<string, SourceMap | undefined>();

  /** The path from the root of the repository; what has no map keeps its address. */
  origin({ url, lineNumber, columnNumber }: CpuProfile['nodes'][number]['callFrame']): {
    readonly path: string;
    readonly line: number;
  } {
    const entry = this.#mapOf(url)?.findEntry(lineNumber, columnNumber);
    if (entry === undefined || !('originalSource' in entry)) return { path: url, line: lineNumber };
    return { path: entry.originalSource.replace(/^(?:\.\.\/)+/, ''), line: entry.originalLine };
  }

  #mapOf(url: string): SourceMap | undefined {
    if (!this.#maps.has(url)) this.#maps.set(url, readMap(url));
    return this.#maps.get(url);
  }
}

function readMap(url: string): SourceMap | undefined {
  if (!/^file:.*\/dist\/.*\.js$/.test(url)) return undefined;
  return new SourceMap(JSON.parse(readFileSync(`${fileURLToPath(url)}.map`, 'utf8')) as SourceMapPayload);
}

function roomOf(path: string, functionName: string): string {
  const ofPackage = /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
  if (ofPackage !== null) return ofPackage[1] ?? '';
  const ours = /^src\/(?:([a-z]+)\/)?/.exec(path);
  if (ours !== null) return ours[1] ?? 'main';
  if (path.startsWith('node:')) return 'node';
  return functionName.startsWith('(') ? 'v8' : 'native';
}
