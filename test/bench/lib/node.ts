import type { ChildProcess } from 'node:child_process';
import type { DevnetOptions } from '../../../src/devnet/index.js';
import { eachLine, startScript } from './processes.js';

export interface BenchNode {
  /** `host:port` of a simulated access node in a process of its own. */
  readonly address: string;
  readonly process: ChildProcess;
  /** Of a paced node: its history begins anew and grows from here on. */
  pace(): void;
  close(): void;
}

export interface BenchNodeOptions extends DevnetOptions {
  readonly heights: number;
  /** Gives its history at this pace, from the moment on at which `pace` is called. Default: has it all. */
  readonly heightsPerSecond?: number;
}

/** Heights above the last one measured, so that the sealed head, and execution data, cover every height of a run. */
export const SPARE_HEIGHTS = 20;

/**
 * Starts a simulated node with a finished history of `heights` above its root (and a few to spare), everything of which
 * is generated and encoded before it resolves: what is measured afterwards is not the making of the chain.
 */
export async function startBenchNode(options: BenchNodeOptions): Promise<BenchNode> {
  const child = startScript('test/bench/lib/nodeProcess.ts', [JSON.stringify(options)]);
  const address = await new Promise<string>((onAddress, onFailure) => {
    child.once('exit', (code) => onFailure(new Error(`the simulated node ended with ${String(code)}`)));
    void eachLine(child, onAddress);
  });
  return {
    address,
    process: child,
    pace: () => void child.send('pace'),
    close: () => void child.kill('SIGKILL'),
  };
}
