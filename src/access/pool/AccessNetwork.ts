import { NodeHandshake } from './NodeHandshake.js';
import { NodePool } from './NodePool.js';
import type { AccessNetworkDependencies, AccessNetworkOptions } from './NodePool.js';

/** All nodes that may be asked: the configured ones and, behind them, the historic nodes of the spork table. */
export class AccessNetwork extends NodePool {
  /** Knows whether the nodes are of the stored chain: if every one that answers is not, `live` is empty. */
  readonly chain: Pick<NodeHandshake, 'chainReplaced' | 'headBelow'>;
  /** The waits of a start for the handshakes, which must be running. */
  readonly waits: Pick<NodeHandshake, 'whenIdentified' | 'whenAllAsked' | 'whenSporkTold' | 'whenRootTold'>;
  readonly #handshake: NodeHandshake;

  /** Makes no call yet. Expected errors: OperatorError `configuration` for an unusable endpoint. */
  constructor(options: AccessNetworkOptions, dependencies: AccessNetworkDependencies) {
    super(options, dependencies);
    this.chain = this.waits = this.#handshake = new NodeHandshake(this, dependencies);
  }

  /**
   * Calls back when a node that did not answer, or was foreign, becomes usable. Returns a function that unsubscribes.
   */
  onAnswering(callback: () => void): () => void {
    return this.#handshake.onAnswering(callback);
  }

  /**
   * Identifies the nodes, again after outages and every five minutes, until the signal aborts; then it resolves.
   * Rejects for bugs only. Called once.
   */
  run(signal: AbortSignal): Promise<void> {
    return this.#handshake.run(signal);
  }
}
