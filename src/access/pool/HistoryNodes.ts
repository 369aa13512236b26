import type { BlockExecutionData, Identifier } from '../../flow/index.js';
import type {
  AccessMethod,
  AccessNode,
  AccessNodes,
  BlockDigest,
  BlockHeader,
  CallOptions,
  NodeFault,
  NodeHealth,
  NodeVersionInfo,
  ReceivedBlock,
  ReceivedEvidence,
  StreamOptions,
  UnaryMethod,
} from '../types.js';

const HISTORY = { isHistory: true } as const;

/** The same nodes, for history: its calls wait behind all others, and use what those leave of rates and streams. */
export class HistoryNodes implements AccessNodes {
  readonly #nodes: AccessNodes;
  readonly #wrapped = new WeakMap<AccessNode, AccessNode>();

  constructor(dependencies: { readonly nodes: AccessNodes }) {
    this.#nodes = dependencies.nodes;
  }

  live(method?: AccessMethod): readonly AccessNode[] {
    return this.#nodes.live(method).map((node) => this.#wrap(node));
  }

  forHeight(height: number, method?: AccessMethod): readonly AccessNode[] {
    return this.#nodes.forHeight(height, method).map((node) => this.#wrap(node));
  }

  forExecutionData(height: number): readonly AccessNode[] {
    return this.#nodes.forExecutionData(height).map((node) => this.#wrap(node));
  }

  peers(): readonly AccessNode[] {
    return this.#nodes.peers().map((node) => this.#wrap(node));
  }

  whyNoPeer(): string | undefined {
    return this.#nodes.whyNoPeer();
  }

  succeeded(node: AccessNode, method: AccessMethod): void {
    this.#nodes.succeeded(node, method);
  }

  /** Ignores failed streams: that history gets none does not count against the streams of others. */
  report(node: AccessNode, fault: NodeFault, detail: string, method: AccessMethod): void {
    if (fault !== 'lied' && method.startsWith('Subscribe')) return;
    this.#nodes.report(node, fault, detail, method);
  }

  #wrap(node: AccessNode): AccessNode {
    const known = this.#wrapped.get(node) ?? new HistoryNode(node);
    this.#wrapped.set(node, known);
    return known;
  }
}

class HistoryNode implements AccessNode {
  readonly #node: AccessNode;

  constructor(node: AccessNode) {
    this.#node = node;
  }

  get name(): string {
    return this.#node.name;
  }

  get health(): NodeHealth {
    return this.#node.health;
  }

  healthOf(method: AccessMethod): NodeHealth {
    return this.#node.healthOf(method);
  }

  supports(method: AccessMethod): boolean {
    return this.#node.supports(method, HISTORY);
  }

  delayMs(method: UnaryMethod): number {
    return this.#node.delayMs(method, HISTORY);
  }

  getNetworkParameters(options?: CallOptions): Promise<{ readonly chainId: string }> {
    return this.#node.getNetworkParameters({ ...options, ...HISTORY });
  }

  getNodeVersionInfo(options?: CallOptions): Promise<NodeVersionInfo> {
    return this.#node.getNodeVersionInfo({ ...options, ...HISTORY });
  }

  getLatestBlockHeader(sealed: boolean, options?: CallOptions): Promise<BlockHeader> {
    return this.#node.getLatestBlockHeader(sealed, { ...options, ...HISTORY });
  }

  getBlockByHeight(height: number, options?: CallOptions): Promise<ReceivedBlock> {
    return this.#node.getBlockByHeight(height, { ...options, ...HISTORY });
  }

  getCollectionTransactionIds(id: Identifier, options?: CallOptions): Promise<readonly Identifier[]> {
    return this.#node.getCollectionTransactionIds(id, { ...options, ...HISTORY });
  }

  getFullCollection(id: Identifier, options?: CallOptions): Promise<readonly Uint8Array[]> {
    return this.#node.getFullCollection(id, { ...options, ...HISTORY });
  }

  getTransaction(id: Identifier, options?: CallOptions): Promise<Uint8Array> {
    return this.#node.getTransaction(id, { ...options, ...HISTORY });
  }

  getProtocolStateSnapshot(height: number, options?: CallOptions): Promise<Uint8Array> {
    return this.#node.getProtocolStateSnapshot(height, { ...options, ...HISTORY });
  }

  getCommitteeEvidence(height: number, options?: CallOptions): Promise<ReceivedEvidence> {
    return this.#node.getCommitteeEvidence(height, { ...options, ...HISTORY });
  }

  subscribeBlocks(startHeight: number, options: StreamOptions): AsyncIterable<ReceivedBlock> {
    return this.#node.subscribeBlocks(startHeight, { ...options, ...HISTORY });
  }

  subscribeBlockDigests(options: StreamOptions & { readonly sealed: boolean }): AsyncIterable<BlockDigest> {
    return this.#node.subscribeBlockDigests(options);
  }

  subscribeExecutionData(startHeight: number, options: StreamOptions): AsyncIterable<BlockExecutionData> {
    return this.#node.subscribeExecutionData(startHeight, { ...options, ...HISTORY });
  }

  subscribeIndexedBlocks(startHeight: number, options: StreamOptions): AsyncIterable<BlockExecutionData> {
    return this.#node.subscribeIndexedBlocks(startHeight, { ...options, ...HISTORY });
  }
}
