import type { ChildProcess } from 'node:child_process';
import type { DevnetOptions } from '../../../src/devnet/index.js';
import { eachLine, startScript } from './processes.js';

export interface BenchNode {
  /** `host:port` of a simulated access node in a process of its own. */
  readonly address: string;
  readonly process: ChildProcess;
  close(): void;
}

/** Heights above the last one measured, so that the sealed head, and execution data, cover every height of a run. */
export const SPARE_HEIGHTS = 20;

/**
 * Starts a simulated node with a finished history of `heights` above its root (and a few to spare), everything of which
 * is generated and encoded before it resolves: what is measured afterwards is not the making of the chain.
 */
export async function startBenchNode(
  options: DevnetOptions & { readonly heights: number },
): Promise<BenchNode> {
  const child = startScript('test/bench/lib/nodeProcess.ts', [JSON.stringify(options)]);
  const address = await new Promise<string>((onAddress, onFailure) => {
    child.once('exit', (code) => onFailure(new Error(`the simulated node ended with ${String(code)}`)));
    void eachLine(child, onAddress);
  });
  return { address, process: child, close: () => child.kill('SIGKILL') };
}
