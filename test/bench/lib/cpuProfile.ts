/** What V8 writes with --cpu-prof, as far as it is read here. Times are microseconds. */
export interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: {
      readonly functionName: string;
      readonly url: string;
      readonly lineNumber: number;
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
  /** File and line as in the program that ran; empty for what has none. */
  readonly place: string;
  selfUs: number;
  totalUs: number;
  readonly children: Frame[];
}

/** The tree of calls from the samples. The program's waiting is left out: it is no work. */
export function callTree({ nodes, samples, timeDeltas }: CpuProfile): Frame {
  const frames = new Map<number, Frame>();
  for (const { id, callFrame } of nodes) {
    const { functionName, url, lineNumber } = callFrame;
    frames.set(id, {
      name: functionName === '' ? '(anonymous)' : functionName,
      room: roomOf(url, functionName),
      place: url === '' ? '' : `${url.replace(/^.*\/(?=(dist|node_modules)\/)/, '')}:${lineNumber + 1}`,
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

function roomOf(url: string, functionName: string): string {
  const ours = /\/dist\/(?:([a-z]+)\/)?[^/]+(?:\/[^/]+)*\.js$/.exec(url);
  if (ours !== null && !url.includes('/node_modules/')) return ours[1] ?? 'main';
  const ofPackage = /\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url);
  if (ofPackage !== null) return ofPackage[1] ?? '';
  if (url.startsWith('node:')) return 'node';
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
