import { readFileSync } from 'node:fs';
import { SourceMap, type SourceMapPayload } from 'node:module';
import { fileURLToPath } from 'node:url';

/** What V8 writes with --cpu-prof, as far as it is read here. Times are microseconds. */
export interface CpuProfile {
  readonly nodes: readonly { readonly id: number; readonly callFrame: CallFrame }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

type CallFrame = Readonly<
  Record<'functionName' | 'url', string> & Record<'lineNumber' | 'columnNumber', number>
>;

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
  const urls = new Set(nodes.map(({ callFrame }) => callFrame.url));
  const maps = new Map([...urls].map((url) => [url, readMap(url)]));
  const byFunction = new Map<string, SelfTime>();
  const byNode = new Map<number, SelfTime>();
  for (const { id, callFrame } of nodes) {
    const { functionName } = callFrame;
    const { path, line } = originOf(callFrame, maps.get(callFrame.url));
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

/** Where code of a built file stands in `src` and in packages, by the map beside it; what has no map keeps its address. */
function originOf({ url, lineNumber, columnNumber }: CallFrame, map: SourceMap | undefined) {
  const entry = map?.findEntry(lineNumber, columnNumber);
  if (entry === undefined || !('originalSource' in entry)) return { path: url, line: lineNumber };
  return { path: entry.originalSource.replace(/^(?:\.\.\/)+/, ''), line: entry.originalLine };
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
