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
    readonly children?: readonly number[];
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** A call and all that was called below it. */
export interface Frame {
  readonly name: string;
  /** Where it stands: a folder of `src`, a package, `node`, or `v8` for what is no JavaScript. */
  readonly room: string;
  /** File and line of the source; empty for what has none. */
  readonly place: string;
  selfUs: number;
  totalUs: number;
  readonly children: Frame[];
}

/** The tree of calls from the samples. The program's waiting is left out: it is no work. */
export function callTree({ nodes, samples, timeDeltas }: CpuProfile): Frame {
  const sources = new Sources();
  const frames = new Map<number, Frame>();
  for (const { id, callFrame } of nodes) {
    const { functionName } = callFrame;
    const { path, line } = sources.origin(callFrame);
    frames.set(id, {
      name: functionName === '' ? '(anonymous)' : functionName,
      room: roomOf(path, functionName),
      place: path === '' ? '' : `${path}:${line + 1}`,
      selfUs: 0,
      totalUs: 0,
      children: [],
    });
  }
  for (const [index, id] of samples.entries()) {
    const frame = frames.get(id);
    if (frame !== undefined && frame.name !== '(idle)') frame.selfUs += Math.max(0, timeDeltas[index] ?? 0);
  }
  for (const { id, children = [] } of nodes) {
    for (const child of children) {
      const frame = frames.get(child);
      if (frame !== undefined) frames.get(id)?.children.push(frame);
    }
  }
  const root = frames.get(nodes[0]?.id ?? 0);
  if (root === undefined) throw new Error('the profile is empty');
  addUp(root);
  return root;
}

function addUp(frame: Frame): number {
  frame.totalUs = frame.selfUs;
  for (const child of frame.children) frame.totalUs += addUp(child);
  return frame.totalUs;
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

/** Self time by function, the longest first. */
export function selfTimes(root: Frame): { readonly frame: Frame; readonly selfUs: number }[] {
  const sums = new Map<string, { frame: Frame; selfUs: number }>();
  const visit = (frame: Frame): void => {
    const key = `${frame.name} ${frame.place}`;
    const sum = sums.get(key);
    if (sum === undefined) sums.set(key, { frame, selfUs: frame.selfUs });
    else sum.selfUs += frame.selfUs;
    for (const child of frame.children) visit(child);
  };
  visit(root);
  return [...sums.values()].sort((left, right) => right.selfUs - left.selfUs);
}
