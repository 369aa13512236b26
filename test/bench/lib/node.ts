import { once } from 'node:events';
import type { DevnetOptions } from '../../../src/devnet/index.js';
import { firstLine, startTask } from './processes.js';

export type BenchNode = Awaited<ReturnType<typeof start>>;

export interface NodeTask {
  readonly options: DevnetOptions;
  /** Everything up to this height is made before the node can be reached. */
  readonly madeTo: number;
  readonly isWatched?: boolean;
}

export interface NodeEvent {
  /** `sent`: the node gave its gRPC the block, or one of its collections, or its execution data. */
  readonly kind: 'finalized' | 'sent';
  readonly height: number;
  readonly atMs: number;
}

export interface BenchNodeOptions extends DevnetOptions {
  readonly heights: number;
  /** Gives its history at this pace, from the moment on at which `pace` is called. Default: has it all. */
  readonly heightsPerSecond?: number;
}

/** Heights above the last one measured, so that the sealed head, and execution data, cover every height of a run. */
const SPARE_HEIGHTS = 20;

/** Everything is generated and encoded before it resolves: what is measured afterwards is not the making of the chain. */
export async function startBenchNode(options: BenchNodeOptions) {
  const { heights, heightsPerSecond, ...rest } = options;
  const end = heights + SPARE_HEIGHTS;
  // What a paced node has it has with execution data: nothing is to wait for but the pace.
  const pace =
    heightsPerSecond === undefined
      ? { startHead: end }
      : { startHead: 0, blockIntervalMs: 1_000 / heightsPerSecond, paused: true, sealedLag: 0 };
  return start({ options: { endHeight: end, ...pace, ...rest }, madeTo: end });
}

/** Starts a node whose chain stands still until `pace`. */
export function startTipNode(options: DevnetOptions) {
  return start({ options: { ...options, paused: true }, madeTo: -1, isWatched: true });
}

async function start(task: NodeTask) {
  const child = startTask('lib/nodeProcess.ts', task);
  const [sent, finalized] = [new Map<number, number>(), new Map<number, number>()];
  child.on('message', ({ kind, height, atMs }: NodeEvent) => {
    (kind === 'sent' ? sent : finalized).set(height, atMs);
  });
  return {
    address: await firstLine(child),
    /** Monotonic milliseconds, the same in every process. */
    sentAtMs: (height: number) => sent.get(height) ?? Number.NaN,
    finalized: async (height: number): Promise<number> => {
      for (;;) {
        const atMs = finalized.get(height);
        if (atMs !== undefined) return atMs;
        await once(child, 'message');
      }
    },
    /** Of a paced node: its history begins anew and grows from here on. */
    pace: () => void child.send('pace'),
    close: () => void child.kill('SIGKILL'),
  };
}
