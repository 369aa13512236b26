import type { Identifier } from '../../flow/index.js';
import type { Logger } from '../../observability/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { Random } from '../../runtime/index.js';
import { parseEndpoint } from '../transport/endpoint.js';
import type { Endpoint } from '../transport/endpoint.js';
import type { RpcClientDependencies, RpcClientOptions } from '../transport/RpcClient.js';
import { NodeHandshake } from './NodeHandshake.js';
import type { Expectation } from './identity/nodeIdentity.js';
import type { NodeTrouble } from '../selection/NodeTroubles.js';
import { inOrderOfAsking } from '../selection/NodeHealthRecord.js';
import { nameOf, nodeState } from './PoolMember.js';
import type { NodeState, PoolMember } from './PoolMember.js';
import { BlockProofs } from '../node/BlockProofs.js';
import type { ProofMode } from '../node/BlockProofs.js';
import { GrpcAccessNode } from '../node/GrpcAccessNode.js';
import type { PooledNode } from '../node/GrpcAccessNode.js';
import type { AccessMetrics, CallCredentials, ForwardingAdmission } from '../transport/ports.js';
import { NodePool } from './NodePool.js';
import type { OpenNode, ServedHeights } from './NodePool.js';
import type { SporkTable } from './sporks/sporkTable.js';
import type { AccessMethod, AccessNode, AccessNodes, NodeFault } from '../types.js';

export interface AccessNetworkOptions extends Pick<
  RpcClientOptions,
  'maxMessageBytes' | 'ratePerSecond' | 'timeoutMs' | 'userAgent'
> {
  /** Historic nodes may be among them. None: the peers stand in for them. */
  readonly accessNodes: readonly string[];
  /** The nodes asked for execution data. Default: the access nodes. */
  readonly executionDataNodes?: readonly string[];
  /** Other indexers, which give collections; without access nodes everything. Default: none. */
  readonly peers?: readonly string[] | undefined;
  /** Empty for a network without earlier sporks. */
  readonly sporks: SporkTable;
  /** The root of a spork that is not in the table. */
  readonly sporkRoot?: number | undefined;
  /** Whether blocks are proven, and those of which chain. Default: they are taken on the nodes' word. */
  readonly proof?: { readonly mode: ProofMode; readonly chainId: string } | undefined;
}

export interface AccessNetworkDependencies extends Pick<
  RpcClientDependencies,
  'clock' | 'metrics' | 'openChannel' | 'sharers'
> {
  readonly random: Random;
  readonly logger: Logger;
  /** What the nodes must agree with. Read at every handshake: the store's sporks and watermark change. */
  readonly expectation: () => Expectation;
  /** What calls to a node carry. Default: nothing. */
  readonly credentialsFor?: ((endpoint: Endpoint, isPeer: boolean) => CallCredentials) | undefined;
  /** Opens a node. Default: over gRPC. */
  readonly openNode?: OpenNode | undefined;
}

/**
 * All nodes that may be asked: the configured ones and, behind them, the historic nodes of the spork table. A node is
 * offered only once it has identified itself; a foreign one never.
 */
export class AccessNetwork implements AccessNodes {
  /** Admits forwarded calls to the live nodes, and never to a foreign one. */
  readonly forwardingAdmission: ForwardingAdmission = {
    admit: async (name, call, signal) => {
      const member = this.#pool.live().find(({ node }) => node.name === name);
      return (await member?.node.admit?.(call, signal)) ?? 'gone';
    },
  };
  /** The same nodes for history: what it asks waits behind all others, and uses what those leave of rates and streams. */
  readonly history: AccessNodes = {
    live: (method) => forHistory(this.live(method)),
    forHeight: (height, method) => forHistory(this.forHeight(height, method)),
    forExecutionData: (height) => forHistory(this.forExecutionData(height)),
    peers: () => forHistory(this.peers()),
    whyNoPeer: () => this.whyNoPeer(),
    succeeded: (node, method) => this.succeeded(node, method),
    // That history gets no stream does not count against the streams of others.
    report: (node, fault, detail, method) => {
      if (fault === 'lied' || !method.startsWith('Subscribe')) this.report(node, fault, detail, method);
    },
  };
  /** Knows which heights the nodes have. */
  readonly heights: ServedHeights;
  /** Knows whether the nodes are of the stored chain: if every one that answers is not, `live` is empty. */
  readonly chain: Pick<NodeHandshake, 'chainReplaced' | 'headBelow'>;
  /** The waits of a start for the handshakes, which must be running. */
  readonly waits: Pick<NodeHandshake, 'whenIdentified' | 'whenAllAsked' | 'whenSporkTold' | 'whenRootTold'>;
  readonly #logger: Logger;
  readonly #metrics: Pick<AccessMetrics, 'endpointLies' | 'invalidBlocks'>;
  readonly #proofs: BlockProofs | undefined;
  readonly #pool: NodePool;
  readonly #handshake: NodeHandshake;

  /** Makes no call yet. Expected errors: OperatorError `configuration` for an unusable endpoint. */
  constructor(options: AccessNetworkOptions, dependencies: AccessNetworkDependencies) {
    this.#logger = dependencies.logger;
    this.#metrics = dependencies.metrics;
    const nodes = configuredNodes(options);
    const { mode = 'off', chainId = '' } = options.proof ?? {};
    const proofs =
      mode === 'off'
        ? undefined
        : new BlockProofs({
            mode,
            chainId,
            logger: dependencies.logger,
            servers: (height) => {
              const known = this.forHeight(height, 'GetBlockByHeight');
              const sound = known.filter((node) => node.healthOf('GetBlockByHeight') === 'healthy');
              // The quickest node may be the one that hides the header.
              return [...sound, ...this.#pool.untried(height)].map(({ name }) => name);
            },
            sporkRoot: (height) => this.heights.sporkAt(height)?.rootHeight,
          });
    this.#proofs = proofs;
    this.#pool = new NodePool(options, {
      ...dependencies,
      openNode: dependencies.openNode ?? grpcNodes(options, { ...dependencies, proofs }),
    });
    const pool = this.#pool;
    this.heights = pool;
    this.#handshake = new NodeHandshake(pool, dependencies);
    this.waits = this.chain = this.#handshake;
    for (const { endpoint, roles } of nodes) pool.add(endpoint, 'configured', roles);
  }

  live(method?: AccessMethod): readonly PooledNode[] {
    return inOrder(this.#pool.live(), method);
  }

  /**
   * In addition to the contract: empty while the only nodes that could serve the height have not identified themselves
   * yet (historic ones are contacted when first wanted). Ask again after a pause.
   */
  forHeight(height: number, method?: AccessMethod): readonly PooledNode[] {
    return inOrder(this.#pool.serving(height, 'access'), method);
  }

  /** Empty for the same reason as `forHeight`. */
  forExecutionData(height: number): readonly PooledNode[] {
    return inOrder(this.#pool.serving(height, 'executionData'), 'SubscribeExecutionDataFromStartBlockHeight');
  }

  peers(): readonly PooledNode[] {
    return inOrder(this.#pool.peers(), 'SubscribeIndexedBlocks');
  }

  whyNoPeer(): string | undefined {
    return this.#pool.whyNoPeer();
  }

  /** Where calls may be forwarded to, in the order of asking. */
  forwardingNodes(): readonly Endpoint[] {
    const nodes = inOrderOfAsking(this.#pool.live().map(({ node }) => node));
    return nodes.flatMap(({ endpoint }) => endpoint ?? []);
  }

  succeeded(node: AccessNode, method: AccessMethod): void {
    this.#pool.member(node.name)?.node.healthRecord.succeeded(method);
  }

  report(node: AccessNode, fault: NodeFault, detail: string, method: AccessMethod): void {
    this.#logger.debug({ endpoint: node.name, method, fault, detail }, 'access node reported');
    if (fault === 'lied') this.#metrics.endpointLies.inc({ endpoint: node.name });
    const member = this.#pool.member(node.name);
    const penaltyMs = member?.node.healthRecord.report(fault, detail, method);
    if (member === undefined || penaltyMs === undefined) return;
    const fields = { endpoint: node.name, method, fault, seconds: penaltyMs / 1_000 };
    // Readiness warns about what a failing call holds up.
    if (fault === 'lied') this.#logger.warn(fields, `${nameOf(member)} penalized`);
    else this.#logger.debug(fields, 'a call to an access node penalized');
  }

  /** Why configured access nodes have not identified themselves; empty when all have. */
  identityTroubles(): readonly NodeTrouble[] {
    return this.#pool.named().flatMap(({ troubles }) => troubles.all());
  }

  /**
   * Calls back when a node that did not answer, or was foreign, becomes usable. Returns a function that unsubscribes.
   */
  onAnswering(callback: () => void): () => void {
    return this.#handshake.onAnswering(callback);
  }

  /** `undefined`: blocks are not proven. */
  proofStatus(): ReturnType<BlockProofs['status']> | undefined {
    return this.#proofs?.status();
  }

  sealedBy(id: Identifier): readonly Identifier[] {
    return this.#proofs?.sealedBy(id) ?? [];
  }

  states(): readonly NodeState[] {
    return this.#pool.members.map(nodeState);
  }

  /**
   * Identifies the nodes, again after outages and every five minutes, until the signal aborts; then it resolves.
   * Rejects for bugs only. Called once.
   */
  run(signal: AbortSignal): Promise<void> {
    return this.#handshake.run(signal);
  }

  /** Closes every channel. Calls under way end by their own signals. */
  close(): void {
    for (const { node } of this.#pool.members) node.close();
  }
}

function forHistory(nodes: readonly PooledNode[]): readonly AccessNode[] {
  return nodes.map(({ history }) => history);
}

function inOrder(members: readonly PoolMember[], method: AccessMethod | undefined): readonly PooledNode[] {
  return inOrderOfAsking(
    members.map(({ node }) => node),
    method,
  );
}

function grpcNodes(
  options: AccessNetworkOptions,
  dependencies: AccessNetworkDependencies & { readonly proofs: BlockProofs | undefined },
): OpenNode {
  const { maxMessageBytes, timeoutMs, userAgent } = options;
  const { clock, credentialsFor, metrics, openChannel, proofs, sharers } = dependencies;
  return (endpoint, { ratePerSecond, isPeer }, { healthRecord, events }) =>
    new GrpcAccessNode(
      { endpoint, ratePerSecond, maxMessageBytes, timeoutMs, userAgent },
      {
        clock,
        metrics,
        isProvable: isPeer && proofs !== undefined,
        healthRecord,
        events,
        openChannel,
        sharers,
        proveBlock: isPeer ? proofs?.indexerDecoderOf(endpoint.name) : proofs?.decoderOf(endpoint.name),
        credentials: credentialsFor?.(endpoint, isPeer),
      },
    );
}

/**
 * Each named node once, with all its roles; access nodes first. Expected errors: OperatorError `configuration` for an
 * unusable endpoint, or without an access node.
 */
function configuredNodes({
  accessNodes,
  executionDataNodes = accessNodes,
  peers = [],
}: AccessNetworkOptions) {
  const nodes = new Map<string, { readonly endpoint: Endpoint; readonly roles: PoolMember['roles'] }>();
  const named = {
    access: accessNodes.length === 0 ? peers : accessNodes,
    executionData: executionDataNodes,
    peer: peers,
  };
  if (named.access.length === 0)
    throw new OperatorError(
      'configuration',
      'No access node is named. Set accessNodes to at least one host:port.',
    );
  for (const role of ['access', 'executionData', 'peer'] as const)
    for (const endpoint of named[role].map(parseEndpoint)) {
      const known = nodes.get(endpoint.name);
      if (known !== undefined && known.endpoint.tls !== endpoint.tls)
        throw new OperatorError(
          'configuration',
          `The access node ${endpoint.name} is named both as grpc:// and as grpcs://. Name it once.`,
        );
      const roles = known?.roles ?? { access: false, executionData: false, peer: false };
      nodes.set(endpoint.name, { endpoint, roles: { ...roles, [role]: true } });
    }
  return nodes.values();
}
