import type { ChildProcess } from 'node:child_process';
import type { DevnetOptions, FaultRule } from '../../src/devnet/index.js';
import { startScript } from '../bench/lib/processes.js';
import type { Order, Word } from './nodeProcess.js';

interface SoakNode {
  child: ChildProcess;
  readonly port: number;
}

/** Simulated access nodes of one chain, each a process that can be made faulty, killed and started again. */
export class SoakNodes {
  readonly #options: DevnetOptions;
  readonly #nodes: SoakNode[] = [];
  /** The highest head that any of them told of. */
  #head = 0;

  private constructor(options: DevnetOptions) {
    this.#options = options;
  }

  static async start(count: number, options: DevnetOptions): Promise<SoakNodes> {
    const nodes = new SoakNodes(options);
    for (let index = 0; index < count; index += 1) nodes.#nodes.push(await nodes.#start(options));
    return nodes;
  }

  get addresses(): readonly string[] {
    return this.#nodes.map(({ port }) => `127.0.0.1:${port}`);
  }

  get head(): number {
    return this.#head;
  }

  setFaults(index: number, rules: readonly FaultRule[]): void {
    this.#order(index, { kind: 'faults', rules });
  }

  /** All heads move on at once: the daemon is behind. */
  leap(heights: number): void {
    for (const index of this.#nodes.keys()) this.#order(index, { kind: 'leap', heights });
  }

  kill(index: number): void {
    this.#nodes[index]?.child.kill('SIGKILL');
  }

  /** Starts a killed node again, at its old address and the head of the others. */
  async revive(index: number): Promise<void> {
    const node = this.#nodes[index];
    if (node === undefined) return;
    const { child } = await this.#start({ ...this.#options, port: node.port, startHead: this.#head });
    node.child = child;
  }

  close(): void {
    for (const { child } of this.#nodes) child.kill('SIGKILL');
  }

  #order(index: number, order: Order): void {
    const child = this.#nodes[index]?.child;
    // One that was killed hears nothing, and comes back without faults.
    if (child?.connected === true) child.send(order);
  }

  #start(options: DevnetOptions): Promise<SoakNode> {
    const child = startScript('test/soak/nodeProcess.ts', [JSON.stringify(options)]);
    return new Promise((resolve, reject) => {
      child.once('exit', (code) => reject(new Error(`a simulated node ended with ${String(code)}`)));
      child.on('message', (word: Word) => {
        if (word.kind === 'listens') resolve({ child, port: word.port });
        else this.#head = Math.max(this.#head, word.height);
      });
    });
  }
}
