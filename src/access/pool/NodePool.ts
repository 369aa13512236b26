import { blockRefusals, type Logger } from '../../observability/index.js';
import { OperatorError, type Random } from '../../runtime/index.js';
import { BlockProofs, type ProofMode } from '../node/BlockProofs.js';
import { grpcAccessNode, type PooledNode } from '../node/grpcAccessNode.js';
import { inOrderOfAsking, NodeHealthRecord } from '../selection/NodeHealthRecord.js';
import type { NodeTrouble } from '../selection/NodeTroubles.js';
import { parseEndpoint, type Endpoint } from '../transport/endpoint.js';
import type { CallCredentials, ForwardingAdmission, NodeEvents } from '../transport/ports.js';
import type { RpcClientDependencies, RpcClientOptions } from '../transport/rpcClient.js';
import type { AccessMethod, AccessNode, AccessNodes, NodeFault } from '../types.js';
import type { Expectation, SporkRoot } from './identity/nodeIdentity.js';
import { covers, isFarBehind, isChainSource, isUsable, nameOf, nodeState, noteHead } from './PoolMember.js';
import { PoolMember, rangeOf } from './PoolMember.js';
import type { NodeState, ServedRange } from './PoolMember.js';
import { sporkOf, type SporkTable } from './sporks/sporkTable.js';
import { sporkVerifier } from './sporks/sporkVerifier.js';

/** Historic nodes are public ones, which allow about 100 calls per second, method and address. */
const HISTORIC_RATE_PER_SECOND = 80;

/** Least time between two handshakes that a head below our last block, or an unserved height, causes. */
const ASKED_EVERY_MS = 5_000;
/** A node whose head stood still this long is identified again: a new connection may reach another node by its name. */
const HEAD_STILL_MS = 60_000;
/**
 * How long a node that fails to name its spork is not asked for its first block: the spork is recorded with that block,
 * and would be recorded without its id, or not at all.
 */
const BORDER_PATIENCE_MS = 600_000;

export interface AccessNetworkOptions extends Pick<
  RpcClientOptions,
  'maxMessageBytes' | 'ratePerSecond' | 'timeoutMs' | 'userAgent'
> {
  /** May include historic nodes. Empty: the peers replace them. */
  readonly accessNodes: readonly string[];
  /** The nodes asked for execution data. Default: the access nodes. */
  readonly executionDataNodes?: readonly string[];
  /** Other indexers, which provide collections and, without access nodes, everything. Default: none. */
  readonly peers?: readonly string[] | undefined;
  /** Empty for a network without earlier sporks. */
  readonly sporks: SporkTable;
  /** The root of a spork that is not in the table. */
  readonly sporkRoot?: number | undefined;
  /** Whether blocks are proven, and for which chain. Default: the nodes are trusted. */
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
  readonly openNode?: typeof grpcAccessNode | undefined;
}

/**
 * The nodes in the order of asking, the heights that each serves, and their sporks. A node is offered only once it has
 * identified itself; a foreign one never. A historic node of the spork table is added when a height that no configured
 * node serves is first wanted; bounded by the table.
 */
export class NodePool implements AccessNodes {
  /** Called with every node that is added from now on: it needs a handshake. */
  onMember: ((member: PoolMember) => void) | undefined;
  readonly verifier: ReturnType<typeof sporkVerifier>;
  /** `undefined`: blocks are not proven. */
  readonly proofs: BlockProofs | undefined;
  /** What provides the chain, for messages: for a mirror, its peers. */
  readonly source: 'access node' | 'peer';
  /** Admits forwarded calls to the live nodes, and never to a foreign one. */
  readonly forwardingAdmission: ForwardingAdmission = {
    admit: async (name, call, signal) => {
      const member = this.#following().find(({ node }) => node.name === name);
      return (await member?.node.client.admit(call, signal)) ?? 'gone';
    },
  };
  /** The same nodes for history, whose calls wait behind all others and use the rates and streams that these leave. */
  readonly history: AccessNodes = {
    live: (method) => forHistory(this.live(method)),
    forHeight: (height, method) => forHistory(this.forHeight(height, method)),
    forExecutionData: (height) => forHistory(this.forExecutionData(height)),
    peers: () => forHistory(this.peers()),
    whyNoPeer: () => this.whyNoPeer(),
    succeeded: (node, method) => this.succeeded(node, method),
    // A stream refused to history does not count against the streams of the live range.
    report: (node, fault, detail, method) => {
      if (fault === 'lied' || !method.startsWith('Subscribe')) this.report(node, fault, detail, method);
    },
  };
  readonly #options: AccessNetworkOptions;
  readonly dependencies: AccessNetworkDependencies;
  readonly #byName = new Map<string, PoolMember>();
  /** The store was empty when last checked. */
  #isNew: boolean;
  /** Roots of the followed sporks that usable nodes name, ascending. */
  #namedRoots: readonly number[] = [];
  /** The same with those of the table and the configuration, ascending. */
  #sporkRoots: readonly number[] = [];

  /** Makes no call yet. Expected errors: OperatorError `configuration` for an unusable endpoint. */
  constructor(options: AccessNetworkOptions, dependencies: AccessNetworkDependencies) {
    const { clock, expectation, logger } = dependencies;
    const { sporks, sporkRoot, proof } = options;
    this.source = options.accessNodes.length === 0 ? 'peer' : 'access node';
    this.#options = options;
    this.dependencies = dependencies;
    this.#isNew = expectation().watermark === undefined;
    const tabled = sporks.flatMap(({ rootHeight, endHeightExclusive }) => [rootHeight, endHeightExclusive]);
    const known = [...tabled, sporkRoot ?? null].filter((root) => root !== null);
    this.verifier = sporkVerifier({ known, clock, expectation, members: () => this.#chainSources });
    if (proof !== undefined && proof.mode !== 'off')
      this.proofs = new BlockProofs({
        mode: proof.mode,
        chainId: proof.chainId,
        logger,
        servers: (height) => this.#servers(height),
        sporkRoot: (height) => this.sporkAt(height)?.rootHeight,
      });
    for (const { endpoint, roles } of configuredNodes(options)) this.#add(endpoint, 'configured', roles);
  }

  get hasSporks(): boolean {
    return this.#options.sporks.length > 0;
  }

  get members(): readonly PoolMember[] {
    return [...this.#byName.values()];
  }

  /** The configured access nodes. */
  named(): readonly PoolMember[] {
    return this.members.filter(({ origin, roles }) => origin === 'configured' && roles.access);
  }

  live(method?: AccessMethod): readonly PooledNode[] {
    return inOrder(this.#following(), method);
  }

  /**
   * In addition to the contract: empty while it is undecided whether the height belongs to a spork that some node claims, and
   * while the only nodes that could serve it have not identified themselves yet. Ask again after a pause.
   */
  forHeight(height: number, method?: AccessMethod): readonly PooledNode[] {
    return inOrder(this.#serving(height, 'access'), method);
  }

  /** Empty for the same reasons as `forHeight`. */
  forExecutionData(height: number): readonly PooledNode[] {
    return inOrder(this.#serving(height, 'executionData'), 'SubscribeExecutionDataFromStartBlockHeight');
  }

  peers(): readonly PooledNode[] {
    const usable = this.members.filter((member) => member.roles.peer && isUsable(member));
    return inOrder(usable, 'SubscribeIndexedBlocks');
  }

  whyNoPeer(): string | undefined {
    const peers = this.members.filter(({ roles }) => roles.peer);
    const whys = peers.flatMap(({ foreign, node, troubles }) =>
      foreign === undefined
        ? troubles.all().map(({ said }) => said)
        : `${node.name} is of another chain (${foreign.reason})`,
    );
    return peers.some(isUsable) ? undefined : whys.join('; ') || undefined;
  }

  succeeded(node: AccessNode, method: AccessMethod): void {
    this.#byName.get(node.name)?.node.healthRecord.succeeded(method);
  }

  report(node: AccessNode, fault: NodeFault, detail: string, method: AccessMethod): void {
    const { logger, metrics } = this.dependencies;
    logger.debug({ endpoint: node.name, method, fault, detail }, 'access node reported');
    if (fault === 'lied') metrics.endpointLies.inc({ endpoint: node.name });
    const member = this.#byName.get(node.name);
    const penaltyMs = member?.node.healthRecord.report(fault, detail, method);
    if (member === undefined || penaltyMs === undefined) return;
    const fields = { endpoint: node.name, method, fault, seconds: penaltyMs / 1_000 };
    // Readiness warns about what a failing call holds up.
    if (fault === 'lied') logger.warn(fields, `${nameOf(member)} penalized`);
    else logger.debug(fields, 'a call to an access node penalized');
  }

  states(): readonly NodeState[] {
    return this.members.map(nodeState);
  }

  /** Why configured access nodes have not identified themselves; empty when all have. */
  identityTroubles(): readonly NodeTrouble[] {
    return this.named().flatMap(({ troubles }) => troubles.all());
  }

  /** Drops a historic node. It is added again when it is wanted again. */
  remove(member: PoolMember): void {
    this.#byName.delete(member.node.name);
    member.node.client.close();
    this.refreshRanges();
  }

  /** Closes every channel. Calls under way end by their own signals. */
  close(): void {
    for (const { node } of this.members) node.client.close();
  }

  /** Identifies the nodes again, because none serves a wanted height: their known ranges may be wrong or outdated. */
  askAgain(): void {
    const beforeMs = this.dependencies.clock.monotonic() - ASKED_EVERY_MS;
    for (const member of this.named())
      if (isUsable(member) && member.askedAtMs <= beforeMs) member.pause.wake();
  }

  /** Call it after every handshake: the node's spork may end the range of another node. */
  refreshRanges(): void {
    const { known } = this.verifier;
    const usable = this.#chainSources.filter(isUsable);
    const named = ascending(usable.flatMap(({ identity }) => identity?.sporkRootHeight ?? []));
    this.#namedRoots = named.filter((root) => this.verifier.verdict(root) === 'followed');
    this.#sporkRoots = ascending([...known, ...this.#namedRoots]);
    for (const member of this.members) member.range = rangeOf(member, this.#sporkRoots);
  }

  /** The lowest height that a usable node, or a historic one of the table, serves; `undefined` when unknown. */
  lowestHeight(): number | undefined {
    return minimum(this.servedRanges().map(({ lowest }) => lowest));
  }

  /** The lowest height, from this one up, that a usable node or a historic one of the table serves. */
  lowestServedFrom(height: number): number | undefined {
    const reaching = this.servedRanges().filter(({ endExclusive = Infinity }) => endExclusive > height);
    return minimum(reaching.map(({ lowest }) => Math.max(lowest ?? height, height)));
  }

  /** The ranges of each usable node, and of the historic nodes of each spork of the table. */
  servedRanges(): readonly ServedRange[] {
    const usable = this.members.filter((member) => member.roles.access && isUsable(member));
    const tabled = this.#options.sporks.filter(({ accessNodes }) => accessNodes.length > 0);
    return [
      ...usable.map(({ range }) => range),
      ...tabled.map(({ rootHeight, endHeightExclusive }) => ({
        lowest: rootHeight,
        endExclusive: endHeightExclusive ?? undefined,
      })),
    ];
  }

  /** Heights at which a spork begins, as far as usable nodes and the table know. */
  sporkRoots(): readonly number[] {
    return this.#sporkRoots;
  }

  /** The lowest height that the nodes of the live spork serve; `undefined` when unknown. */
  liveRoot(): number | undefined {
    return minimum(this.#following().map(({ range }) => range.lowest));
  }

  /**
   * The spork of a height, as far as usable nodes and the table know. Its id is the one that a majority of the nodes that
   * name one agree on, or the last agreed one while no node names any; empty if there is none.
   */
  sporkAt(height: number): SporkRoot | undefined {
    // The table needs no confirmation. Asked for every block, so without lists in between.
    const tabled = sporkOf(this.#options.sporks, height)?.rootHeight ?? -1;
    const followed = this.verifier.wasFollowed(height) ? height : -1;
    const named = this.#namedRoots.findLast((root) => root <= height) ?? -1;
    const rootHeight = Math.max(tabled, followed, named);
    return rootHeight < 0 ? undefined : { rootHeight, sporkId: this.verifier.agreedId(rootHeight) };
  }

  /**
   * Why no node serves the height: why the historic nodes of its spork do not answer, else the first or last height of each
   * configured node, or why it cannot name its spork.
   */
  whyUnserved(height: number): readonly NodeTrouble[] {
    const nodes = this.#historicNodes(height);
    const historic = nodes.flatMap(({ name }) => this.#byName.get(name)?.troubles.all() ?? []);
    if (historic.length > 0) return historic;
    return this.members.flatMap((member): readonly NodeTrouble[] => {
      const { node, range, beginning, origin, outage, troubles } = member;
      if (this.#mayNameSpork(member, height)) return troubles.all();
      if (origin !== 'configured' || !member.roles.access) return [];
      if (beginning === undefined || (outage && this.#isNew)) return troubles.all();
      if (covers(range, height)) return [];
      const { lowest = 0, endExclusive } = range;
      const said =
        height < lowest ? `says it begins at ${lowest}` : `is of a spork that ends below ${endExclusive}`;
      const { count, sinceMs } = beginning;
      return [{ node: node.name, method: 'GetNodeVersionInfo', kind: 'refused', said, count, sinceMs }];
    });
  }

  /** The names of the nodes that `forHeight` would return now. For reports: it neither dials nor keeps a historic node. */
  namesServing(height: number): ReadonlySet<string> {
    return new Set(this.#offered(height, 'access').map(({ node }) => node.name));
  }

  /** The members whose statements about the chain count. */
  get #chainSources(): readonly PoolMember[] {
    return this.members.filter(isChainSource);
  }

  /** Nodes that follow the head; if only historic ones are configured, those of the latest spork. */
  #following(): readonly PoolMember[] {
    const named = this.named().filter(isUsable);
    const following = named.filter(({ range }) => range.endExclusive === undefined);
    if (following.length > 0) return following;
    const latest = Math.max(...named.map(({ range }) => range.endExclusive ?? 0));
    return named.filter(({ range }) => range.endExclusive === latest);
  }

  /** Usable nodes of a role that serve a height: configured ones if there are any, else historic ones. */
  #serving(height: number, role: keyof PoolMember['roles']): readonly PoolMember[] {
    const serving = this.#offered(height, role);
    const isConfigured = serving.some(({ origin }) => origin === 'configured');
    if (isConfigured || this.verifier.undecidedAt(height) !== undefined) return serving;
    const nodes = this.#historicNodes(height);
    if (serving.length === 0 && nodes.length === 0) this.askAgain();
    for (const endpoint of nodes) {
      const roles = { access: true, executionData: true, peer: false };
      const member = this.#byName.get(endpoint.name) ?? this.#add(endpoint, 'historic', roles);
      member.isTabled = true;
      member.wantedAtMs = this.dependencies.clock.monotonic();
    }
    return serving;
  }

  /** What `#serving` would return, without adding or keeping a historic node: a report must not cause connections. */
  #offered(height: number, role: keyof PoolMember['roles']): readonly PoolMember[] {
    if (this.verifier.undecidedAt(height) !== undefined) return [];
    const isNew = this.#isBeginning();
    const serving = this.members.filter(
      (member) =>
        (member.roles[role] || member.isTabled) &&
        isUsable(member) &&
        covers(member.range, height) &&
        !this.#mayNameSpork(member, height) &&
        // While nothing is stored, no block ties the node that answers after an outage to the recorded spork.
        !(member.outage && isNew),
    );
    const named = serving.filter(({ origin }) => origin === 'configured');
    const all = named.length > 0 ? named : serving;
    const nowMs = this.dependencies.clock.monotonic();
    const near = all.filter((member) => !isFarBehind(member, height, nowMs));
    const offered = near.length > 0 ? near : all;
    // Nor a node that failed to report its spork, or the checkpoint: prefer those that did.
    const sure = isNew
      ? offered.filter(({ identity }) => !identity?.isVague && !identity?.openRoot?.isFailing)
      : [];
    return sure.length > 0 ? sure : offered;
  }

  /** True until the first block is stored. It distinguishes nodes of two chains, so all are then identified again. */
  #isBeginning(): boolean {
    if (this.#isNew && this.dependencies.expectation().watermark !== undefined) {
      this.#isNew = false;
      for (const { pause } of this.named()) pause.wake();
    }
    return this.#isNew;
  }

  /** True when the index has reached the first height of this node, and the node may still name its spork. */
  #mayNameSpork({ beginning, identity, range }: PoolMember, height: number): boolean {
    if (!identity?.openRoot?.isFailing || beginning === undefined || range.lowest !== height) return false;
    const isCrossing = (this.dependencies.expectation().firstHeight ?? Infinity) < height;
    return isCrossing && this.dependencies.clock.monotonic() - beginning.sinceMs < BORDER_PATIENCE_MS;
  }

  #historicNodes(height: number): readonly Endpoint[] {
    return sporkOf(this.#options.sporks, height)?.accessNodes.map(parseEndpoint) ?? [];
  }

  /** The nodes that can be asked for the block of a height now, and those that may have it but were never tried. */
  #servers(height: number): readonly string[] {
    const known = this.forHeight(height, 'GetBlockByHeight');
    const historic = new Set(this.#historicNodes(height).map(({ name }) => name));
    const untried = this.members.filter(
      ({ node, origin, roles, tried }) =>
        !tried && (origin === 'configured' ? roles.access : historic.has(node.name)),
    );
    // The quickest node may be the one that hides the header.
    return [
      ...known.filter((node) => node.healthOf('GetBlockByHeight') === 'healthy'),
      ...untried.map(({ node }) => node),
    ].map(({ name }) => name);
  }

  #add(endpoint: Endpoint, origin: PoolMember['origin'], roles: PoolMember['roles']): PoolMember {
    const { clock, expectation, logger, metrics } = this.dependencies;
    const events: NodeEvents = {
      onLowestHeight: (height) => {
        if (height <= member.refusedBelow) return;
        member.refusedBelow = height;
        this.refreshRanges();
      },
      onHead: (height) => {
        const atMs = clock.monotonic();
        noteHead(member, height, atMs);
        const watermark = expectation().watermark?.height ?? -1;
        if (height < watermark && atMs - member.askedAtMs >= ASKED_EVERY_MS) member.pause.wake();
        const stillMs = atMs - Math.max(member.askedAtMs, member.risesMs.at(-1) ?? atMs);
        if (stillMs < HEAD_STILL_MS || member.range.endExclusive !== undefined) return;
        node.client.renew();
        member.pause.wake();
      },
      onOutage: () => {
        if (member.outage) return;
        member.outage = true;
        member.pause.wake();
      },
      // Info only: readiness warns about what these calls hold up.
      onReconnect: () => logger.info({ endpoint: endpoint.name }, 'calls kept timing out, reconnecting'),
    };
    const { maxMessageBytes, ratePerSecond: ofConfigured, timeoutMs, userAgent } = this.#options;
    const ofHistoric = Math.min(ofConfigured || Infinity, HISTORIC_RATE_PER_SECOND);
    const ratePerSecond = origin === 'configured' ? ofConfigured : ofHistoric;
    const isPeer = roles.peer;
    const { credentialsFor, openNode = grpcAccessNode } = this.dependencies;
    const node = openNode(
      { endpoint, ratePerSecond, maxMessageBytes, timeoutMs, userAgent },
      {
        ...this.dependencies,
        healthRecord: new NodeHealthRecord({ clock }),
        events,
        isProvable: isPeer && this.proofs !== undefined,
        proveBlock: this.proofs?.decoderOf(endpoint.name, isPeer),
        credentials: credentialsFor?.(endpoint, isPeer),
      },
    );
    const member = new PoolMember(node, origin, roles, clock);
    this.#byName.set(node.name, member);
    this.refreshRanges();
    metrics.endpointLies.inc({ endpoint: node.name }, 0);
    for (const reason of blockRefusals) metrics.invalidBlocks.inc({ endpoint: node.name, reason }, 0);
    this.onMember?.(member);
    return member;
  }
}

function forHistory(nodes: readonly PooledNode[]): readonly AccessNode[] {
  return nodes.map(({ history }) => history);
}

function inOrder(members: readonly PoolMember[], method?: AccessMethod): readonly PooledNode[] {
  const nodes = members.map(({ node }) => node);
  return inOrderOfAsking(nodes, method);
}

function ascending(heights: readonly number[]): readonly number[] {
  return [...new Set(heights)].sort((a, b) => a - b);
}

function minimum(heights: readonly (number | undefined)[]): number | undefined {
  const known = heights.filter((height) => height !== undefined);
  return known.length === 0 ? undefined : known.reduce((a, b) => Math.min(a, b));
}

/**
 * Each named node once, with all its roles; access nodes first. Expected errors: OperatorError `configuration` for an
 * unusable endpoint.
 */
function configuredNodes({
  accessNodes,
  executionDataNodes = accessNodes,
  peers = [],
}: AccessNetworkOptions) {
  const nodes = new Map<string, { readonly endpoint: Endpoint; readonly roles: PoolMember['roles'] }>();
  const access = accessNodes.length === 0 ? peers : accessNodes;
  const named = { access, executionData: executionDataNodes, peer: peers };
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
  return [...nodes.values()];
}
