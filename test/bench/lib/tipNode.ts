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
  /** The highest height that is finalized, as far as it is known here. */
  head(): number;
  /** Resolves once the height is finalized, with the moment. */
  finalized(height: number): Promise<number>;
  /** Lets the chain grow. */
  resume(): void;
  close(): void;
}

export interface TipNodeOptions extends DevnetOptions {
  /** Default false. True: all of its history is generated before it is there, since it will be asked for. */
  readonly isHistoryMade?: boolean;
}

/** Starts a simulated node whose chain stands still until `resume`. */
export async function startTipNode(options: TipNodeOptions): Promise<TipNode> {
  const child: ChildProcess = startScript('test/bench/lib/tipNodeProcess.ts', [JSON.stringify(options)]);
  const sent = new Map<number, number>();
  const finalized = new Map<number, number>();
  let head = options.startHead ?? 0;
  const waiting = new Map<number, (atMs: number) => void>();
  child.on('message', ({ kind, height, atMs }: TipEvent) => {
    if (kind === 'sent') {
      sent.set(height, atMs);
      return;
    }
    finalized.set(height, atMs);
    head = Math.max(head, height);
    waiting.get(height)?.(atMs);
  });
  const address = await new Promise<string>((onAddress, onFailure) => {
    child.once('exit', (code) => onFailure(new Error(`the simulated node ended with ${String(code)}`)));
    void eachLine(child, onAddress);
  });
  return {
    address,
    head: () => head,
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
