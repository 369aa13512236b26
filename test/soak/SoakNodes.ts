import { startDevnet } from '../../src/devnet/index.js';
import type { DevnetHandle, DevnetOptions, FaultRule } from '../../src/devnet/index.js';
import { atEnd } from '../support/cleanup.js';
import { lastingPort } from '../support/lastingPort.js';

/** Simulated access nodes of one chain, each of which can be made faulty, killed and started again. */
export class SoakNodes {
  readonly #options: DevnetOptions;
  readonly #nodes: DevnetHandle[] = [];

  private constructor(options: DevnetOptions) {
    this.#options = options;
  }

  static async start(count: number, options: DevnetOptions): Promise<SoakNodes> {
    const nodes = new SoakNodes(options);
    while (nodes.#nodes.length < count)
      nodes.#nodes.push(await startDevnet({ ...options, port: await lastingPort() }));
    atEnd(async () => {
      for (const node of nodes.#nodes) await node.kill();
    });
    return nodes;
  }

  get addresses(): readonly string[] {
    return this.#nodes.map(({ address }) => address);
  }

  get head(): number {
    return Math.max(...this.#nodes.map(({ node }) => node.head.finalized));
  }

  setFaults(index: number, rules: readonly FaultRule[]): void {
    this.#nodes[index]?.node.setFaults(rules);
  }

  /** All heads move on at once: the daemon is behind. */
  leap(heights: number): void {
    for (const { node } of this.#nodes) node.head.advance(heights);
  }

  async kill(index: number): Promise<void> {
    await this.#nodes[index]?.kill();
  }

  /** Starts a killed node again, at its old address and the head of the others. */
  async revive(index: number): Promise<void> {
    const { port } = this.#nodes[index] ?? {};
    if (port !== undefined)
      this.#nodes[index] = await startDevnet({ ...this.#options, port, startHead: this.head });
  }
}
