import type { ChildProcess } from 'node:child_process';
import type { DevnetOptions } from '../../../src/devnet/index.js';
import { eachLine, startScript } from './processes.js';

export interface TipEvent {
  /** `sent`: the node gave its gRPC the block, or one of its collections, or its execution data. */
  readonly kind: 'finalized' | 'sent';
  readonly height: number;
  /** Of the monotonic clock, which is the same in every process of a machine. */
  readonly atMs: number;
}

export interface TipNode {
  readonly address: string;
  /** Monotonic milliseconds at which the last message of a height left so far. */
  sentAtMs(height: number): number | undefined;
  /** Resolves once the height is finalized, with the moment. */
  finalized(height: number): Promise<number>;
  /** Lets the chain grow. */
  resume(): void;
  close(): void;
}

/** Starts a simulated node whose chain stands still until `resume`. */
export async function startTipNode(options: DevnetOptions): Promise<TipNode> {
  const child: ChildProcess = startScript('test/bench/lib/tipNodeProcess.ts', [JSON.stringify(options)]);
  const sent = new Map<number, number>();
  const finalized = new Map<number, number>();
  const waiting = new Map<number, (atMs: number) => void>();
  child.on('message', ({ kind, height, atMs }: TipEvent) => {
    if (kind === 'sent') {
      sent.set(height, atMs);
      return;
    }
    finalized.set(height, atMs);
    waiting.get(height)?.(atMs);
  });
  const address = await new Promise<string>((onAddress, onFailure) => {
    child.once('exit', (code) => onFailure(new Error(`the simulated node ended with ${String(code)}`)));
    void eachLine(child, onAddress);
  });
  return {
    address,
    sentAtMs: (height) => sent.get(height),
    finalized: (height) => {
      const atMs = finalized.get(height);
      if (atMs !== undefined) return Promise.resolve(atMs);
      return new Promise((resolve) => waiting.set(height, resolve));
    },
    resume: () => void child.send('resume'),
    close: () => void child.kill('SIGKILL'),
  };
}
