import type { DevnetOptions } from '../../../src/devnet/index.js';
import { firstLine, startTask } from './processes.js';

/** A simulated access node in a process of its own. */
export interface BenchNode {
  /** `host:port`. */
  readonly address: string;
  /** Of a paced node: its history begins anew and grows from here on. */
  pace(): void;
  close(): void;
}

/** One whose chain grows by the clock, and which tells when. Monotonic milliseconds, the same in every process. */
export interface TipNode extends BenchNode {
  /** When the last message of a height left so far. */
  sentAtMs(height: number): number;
  /** Resolves once the height is finalized, with the moment. */
  finalized(height: number): Promise<number>;
}

/** What the process behind it is told. */
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

/**
 * Starts a node with a finished history of `heights` (and a few to spare), everything of which is generated and encoded before
 * it resolves: what is measured afterwards is not the making of the chain.
 */
export async function startBenchNode(options: BenchNodeOptions): Promise<BenchNode> {
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
export function startTipNode(options: DevnetOptions): Promise<TipNode> {
  return start({ options: { ...options, paused: true }, madeTo: -1, isWatched: true });
}

async function start(task: NodeTask): Promise<TipNode> {
  const child = startTask('lib/nodeProcess.ts', task);
  const sent = new Map<number, number>();
  const finalized = new Map<number, number>();
  const waiting = new Map<number, (atMs: number) => void>();
  child.on('message', ({ kind, height, atMs }: NodeEvent) => {
    (kind === 'sent' ? sent : finalized).set(height, atMs);
    if (kind === 'sent') return;
    waiting.get(height)?.(atMs);
  });
  return {
    address: await firstLine(child),
    sentAtMs: (height) => sent.get(height) ?? Number.NaN,
    finalized: (height) => {
      const atMs = finalized.get(height);
      return atMs === undefined
        ? new Promise((resolve) => waiting.set(height, resolve))
        : Promise.resolve(atMs);
    },
    pace: () => void child.send('pace'),
    close: () => void child.kill('SIGKILL'),
  };
}
