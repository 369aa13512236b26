import type { Logger } from '../../observability/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import { OperatorError } from '../../runtime/index.js';
import { parseEndpoint } from '../transport/endpoint.js';
import type { Endpoint } from '../transport/endpoint.js';
import type { OpenChannel } from '../transport/rpcChannel.js';
import type { CallRecord } from '../selection/CallHealth.js';
import { ChainCheck } from './ChainCheck.js';
import type { ChainReplaced, HeadBelow } from './ChainCheck.js';
import type { ForeignReason } from './foreignness.js';
import type { ForwardingDesk } from '../forwarding/admission.js';
import { NodeHandshake } from './NodeHandshake.js';
import type { Expectation, SporkRoot } from './nodeIdentity.js';
import type { NodeTrouble } from '../selection/NodeTroubles.js';
import { inOrderOfAsking } from '../selection/NodeHealthRecord.js';
import type { PoolMember } from './poolMember.js';
import { GrpcAccessNode } from '../node/GrpcAccessNode.js';
import type { AccessMetrics } from '../transport/RpcClient.js';
import { NodePool } from './NodePool.js';
import type { OpenNode } from './NodePool.js';
import type { SporkTable } from './sporkTable.js';
import { StartWaits } from './StartWaits.js';
import type { UndecidedSpork } from './SporkVerifier.js';
import { loadMethodStubs } from '../transport/methodStubs.js';
import type { AccessMethod, AccessNode, AccessNodes, NodeFault, NodeHealth } from '../types.js';

export interface AccessNetworkOptions {
  /** In the form of `parseEndpoint`; at least one. Historic nodes may be among them. */
  readonly accessNodes: readonly string[];
  /** The nodes asked for execution data. Default: the access nodes. */
  readonly executionDataNodes?: readonly string[];
  /** Empty for a network without earlier sporks. */
  readonly sporks: SporkTable;
  /** Where a spork begins that the table does not have. */
  readonly sporkRoot?: number | undefined;
  /** Unary calls per second, per node and method; 0 = no limit. Historic nodes are held to 80 at most. */
  readonly ratePerSecond: number;
  readonly maxMessageBytes: number;
  /** Deadline of a unary call that names none. */
  readonly timeoutMs: number;
  readonly userAgent: string;
}

export interface AccessNetworkDependencies {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: AccessMetrics;
  /** What the nodes must agree with. Read at every identification: the store's sporks and watermark move. */
  readonly expectation: () => Expectation;
  /** Processes that share `ratePerSecond` now, this one included. Default: it alone. */
  readonly sharers?: (() => number) | undefined;
  /** How a node is reached. Default: gRPC. */
  readonly openNode?: OpenNode | undefined;
  /** What the calls to a node go over. Default: gRPC. */
  readonly openChannel?: OpenChannel | undefined;
}

/** What is known of one node, for metrics and the status page. */
export interface NodeState {
  readonly endpoint: string;
  readonly state: NodeHealth;
  readonly origin: 'configured' | 'historic';
  readonly executionData: boolean;
  readonly latencyMs: number;
  readonly callsInFlight: number;
  /** Empty when it does not tell, or has not answered yet. */
  readonly semver: string;
  readonly lowestHeight: number | undefined;
  /** What makes a foreign node foreign. */
  readonly foreign: ForeignReason | undefined;
  /** Why its handshake fails; `undefined` while it succeeds. */
  readonly trouble: string | undefined;
  /** Why the node as a whole is not healthy; `undefined` while it is. */
  readonly record: CallRecord | undefined;
  /** Its calls that are not healthy, and why. */
  readonly calls: readonly (CallRecord & { readonly method: AccessMethod })[];
}

/**
 * All nodes that may be asked: those the operator named and, behind them, the historic nodes of the spork table. No
 * node is offered before it has said who it is; a foreign one never is.
 */
export class AccessNetwork implements AccessNodes {
  /** Lets calls of others through to the nodes that may be asked: never to a foreign one. */
  readonly forwardingDesk: ForwardingDesk = {
    admit: async (name, call, signal) => {
      const member = this.#pool.live().find(({ node }) => node.name === name);
      return (await member?.node.gate?.admit(call, signal)) ?? 'gone';
    },
  };
  readonly #logger: Logger;
  readonly #pool: NodePool;
  readonly #check: ChainCheck;
  readonly #waits: StartWaits;
  readonly #handshake: NodeHandshake;

  /** Calls nobody yet. Expected errors: OperatorError `configuration` for an endpoint that cannot be used. */
  constructor(options: AccessNetworkOptions, dependencies: AccessNetworkDependencies) {
    this.#logger = dependencies.logger;
    const accessNodes = parseEndpoints(options.accessNodes);
    const executionDataNodes = parseEndpoints(options.executionDataNodes ?? options.accessNodes);
    if (accessNodes.size === 0) {
      throw new OperatorError(
        'configuration',
        'No access node is named. Set accessNodes to at least one host:port.',
      );
    }
    this.#pool = new NodePool(options, {
      clock: dependencies.clock,
      expectation: dependencies.expectation,
      openNode: dependencies.openNode ?? grpcNodes(options, dependencies),
      hooks: {
        onMember: (member) => this.#handshake.follow(member),
        onReconnect: ({ node }) => {
          // What the calls hold up, if anything, is warned of by the readiness.
          this.#logger.info({ endpoint: node.name }, 'calls kept timing out, reconnecting');
        },
      },
    });
    const pool = this.#pool;
    this.#check = new ChainCheck({ ...dependencies, pool });
    this.#waits = new StartWaits({ pool, check: this.#check, clock: dependencies.clock });
    this.#handshake = new NodeHandshake({ ...dependencies, pool, check: this.#check, waits: this.#waits });
    for (const [name, endpoint] of merge(accessNodes, executionDataNodes)) {
      this.#pool.add(endpoint, 'configured', {
        access: accessNodes.has(name),
        executionData: executionDataNodes.has(name),
      });
    }
  }

  live(method?: AccessMethod): readonly AccessNode[] {
    return inOrder(this.#pool.live(), method);
  }

  /**
   * Beside what the contract says: empty while the only nodes that could serve the height have not yet said who they
   * are (historic ones are first reached when first wanted). Ask again after a pause.
   */
  forHeight(height: number, method?: AccessMethod): readonly AccessNode[] {
    return inOrder(this.#pool.serving(height, 'access'), method);
  }

  /** Empty for the same reason as `forHeight`. */
  forExecutionData(height: number): readonly AccessNode[] {
    return inOrder(this.#pool.serving(height, 'executionData'), 'SubscribeExecutionDataFromStartBlockHeight');
  }

  /** Where calls of others may be forwarded to, in the order of asking. */
  forwardingNodes(): readonly Endpoint[] {
    const nodes = inOrderOfAsking(this.#pool.live().map(({ node }) => node));
    return nodes.flatMap(({ gate }) => gate?.endpoint ?? []);
  }

  /** The names of the nodes that `forHeight` would give now. For reports: it neither dials nor keeps a historic node. */
  namesServing(height: number): ReadonlySet<string> {
    return new Set(this.#pool.offered(height, 'access').map(({ node }) => node.name));
  }

  succeeded(node: AccessNode, method: AccessMethod): void {
    this.#pool.member(node.name)?.node.healthRecord.succeeded(method);
  }

  report(node: AccessNode, fault: NodeFault, detail: string, method: AccessMethod): void {
    this.#logger.debug({ endpoint: node.name, method, fault, detail }, 'access node reported');
    const penaltyMs = this.#pool.member(node.name)?.node.healthRecord.report(fault, detail, method);
    if (penaltyMs === undefined) return;
    const fields = { endpoint: node.name, method, fault, seconds: penaltyMs / 1_000 };
    // What a failing call holds up, if anything, is warned of where that is known: by the readiness.
    if (fault === 'lied') this.#logger.warn(fields, 'access node penalized');
    else this.#logger.debug(fields, 'a call to an access node penalized');
  }

  /** The lowest height that a usable node, or a historic one of the table, serves; `undefined` when none tells. */
  lowestHeight(): number | undefined {
    return this.#pool.lowestHeight();
  }

  /**
   * The lowest height, from this one up, that a usable node, or a historic one of the table, serves: a higher one when this
   * one lies in a gap between sporks; `undefined` when all of them end below it.
   */
  lowestServedFrom(height: number): number | undefined {
    return this.#pool.lowestServedFrom(height);
  }

  /** The heights that usable nodes, and the historic ones of the table, serve: from where each begins to where it ends. */
  servedRanges(): readonly {
    readonly lowest: number | undefined;
    readonly endExclusive: number | undefined;
  }[] {
    return this.#pool.servedRanges();
  }

  /** Heights at which a spork begins, as far as usable nodes and the table tell. */
  sporkRoots(): readonly number[] {
    return this.#pool.sporkRoots;
  }

  /** The lowest height that the nodes of the live spork serve; `undefined` when none tells. */
  liveRoot(): number | undefined {
    return this.#pool.liveRoot();
  }

  /** The spork that a height belongs to, as far as usable nodes and the table tell; for the store's record. */
  sporkAt(height: number): SporkRoot | undefined {
    return this.#pool.sporkAt(height);
  }

  /** Why no configured access node serves the height, for each node. */
  whyUnserved(height: number): readonly NodeTrouble[] {
    return this.#pool.whyUnserved(height);
  }

  /** What the access nodes that the operator named do instead of saying who they are; empty when all have said it. */
  identityTroubles(): readonly NodeTrouble[] {
    return this.#pool.named().flatMap(({ troubles }) => troubles.all());
  }

  /** Set while every access node that answers serves another chain than the stored one: `live` is empty then. */
  chainReplaced(): ChainReplaced | undefined {
    return this.#check.chainReplaced();
  }

  /** Set while every head that the nodes told lately, all of our chain, is far below the last block that is stored. */
  headBelow(): HeadBelow | undefined {
    return this.#check.headBelow();
  }

  /** Calls back when a node that did not answer, or was foreign, can be asked again. Returns a function that ends it. */
  onAnswering(callback: () => void): () => void {
    return this.#handshake.onAnswering(callback);
  }

  /** Which spork keeps this height and those above from being asked for: it is not known whether there is one. */
  undecidedSporkAt(height: number): UndecidedSpork | undefined {
    return this.#pool.verifier.undecidedAt(height);
  }

  /** Every node with its state at the time of asking. */
  states(): readonly NodeState[] {
    return this.#pool.members.map(({ node, origin, roles, identity, range, foreign, trouble }) => ({
      endpoint: node.name,
      state: node.health,
      origin,
      executionData: roles.executionData,
      latencyMs: node.healthRecord.expectedLatencyMs,
      callsInFlight: node.inFlight,
      semver: identity?.semver ?? '',
      lowestHeight: range.lowest,
      foreign: foreign?.reason,
      trouble,
      record: node.healthRecord.record,
      calls: node.healthRecord.callRecords(),
    }));
  }

  /**
   * Asks the nodes who they are and keeps asking (after outages, and every five minutes) until the signal aborts; then
   * it resolves. Rejects for bugs only. Called once.
   */
  run(signal: AbortSignal): Promise<void> {
    return this.#handshake.run(signal);
  }

  /**
   * Resolves once an access node that the operator named is usable. While none answers it waits; `run` must be running.
   * Expected errors: OperatorError `foreign` when all that answer are foreign; the signal's abort reason.
   */
  whenIdentified(signal: AbortSignal): Promise<void> {
    return this.#waits.whenIdentified(signal);
  }

  /**
   * Resolves once every access node that the operator named was asked who it is, whatever came of it, and it is
   * decided which sporks are believed, or a minute later: `lowestHeight` and `liveRoot` know all that can be known
   * then. `run` must be running. Expected errors: the signal's abort reason.
   */
  whenAllAsked(signal: AbortSignal): Promise<void> {
    return this.#waits.whenAllAsked(signal);
  }

  /**
   * Resolves once it is known which spork a height belongs to, when no node may yet tell it, or after a minute. `run`
   * must be running. Expected errors: the signal's abort reason.
   */
  whenSporkTold(height: number, signal: AbortSignal): Promise<void> {
    return this.#waits.whenSporkTold(height, signal);
  }

  /**
   * Resolves once the root of the live spork is told; when no node that failed to tell it may yet; or after a minute.
   * `run` must be running. Expected errors: the signal's abort reason.
   */
  whenRootTold(signal: AbortSignal): Promise<void> {
    return this.#waits.whenRootTold(signal);
  }

  /** Closes every channel. Calls under way are left to their own signals. */
  close(): void {
    for (const { node } of this.#pool.members) node.close();
  }
}

function inOrder(members: readonly PoolMember[], method: AccessMethod | undefined): readonly AccessNode[] {
  return inOrderOfAsking(
    members.map(({ node }) => node),
    method,
  );
}

/** By name; a node named twice is one node. */
function parseEndpoints(texts: readonly string[]): ReadonlyMap<string, Endpoint> {
  return texts.map(parseEndpoint).reduce(addEndpoint, new Map<string, Endpoint>());
}

function merge(
  a: ReadonlyMap<string, Endpoint>,
  b: ReadonlyMap<string, Endpoint>,
): ReadonlyMap<string, Endpoint> {
  return [...b.values()].reduce(addEndpoint, new Map(a));
}

function addEndpoint(endpoints: Map<string, Endpoint>, endpoint: Endpoint): Map<string, Endpoint> {
  const known = endpoints.get(endpoint.name);
  if (known !== undefined && known.tls !== endpoint.tls) {
    throw new OperatorError(
      'configuration',
      `The access node ${endpoint.name} is named both as grpc:// and as grpcs://. Name it once.`,
    );
  }
  return endpoints.set(endpoint.name, endpoint);
}

function grpcNodes(options: AccessNetworkOptions, dependencies: AccessNetworkDependencies): OpenNode {
  const { maxMessageBytes, timeoutMs, userAgent } = options;
  const { clock, metrics, openChannel, sharers } = dependencies;
  const stubs = loadMethodStubs();
  return (endpoint, { ratePerSecond }, { healthRecord, events }) =>
    new GrpcAccessNode(
      { endpoint, ratePerSecond, maxMessageBytes, timeoutMs, userAgent },
      { clock, metrics, stubs, healthRecord, events, openChannel, sharers },
    );
}
