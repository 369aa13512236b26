import { blockRefusals } from '../../observability/index.js';
import type { Logger } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import { parseEndpoint } from '../transport/endpoint.js';
import type { Endpoint } from '../transport/endpoint.js';
import type { Expectation, SporkRoot } from './identity/nodeIdentity.js';
import { NodeHealthRecord } from '../selection/NodeHealthRecord.js';
import { covers, isHeard, isUsable, noteHead, PoolMember, rangeOf } from './PoolMember.js';
import type { ServedRange } from './PoolMember.js';
import type { NodeTrouble } from '../selection/NodeTroubles.js';
import type { AccessMetrics, NodeEvents } from '../transport/ports.js';
import type { PooledNode } from '../node/GrpcAccessNode.js';
import { SporkVerifier } from './sporks/SporkVerifier.js';
import type { UndecidedSpork } from './sporks/SporkVerifier.js';
import { sporkOf } from './sporks/sporkTable.js';
import type { SporkTable } from './sporks/sporkTable.js';

/** Historic nodes are public ones, which allow about 100 calls per second, method and address. */
const HISTORIC_RATE_PER_SECOND = 80;

/** A node that reports a head below our last block gets a new handshake, but no more often than this. */
const BELOW_ASKED_EVERY_MS = 5_000;
/** While no node serves a wanted height, each gets a new handshake, but no more often than this. */
const UNSERVED_ASKED_EVERY_MS = 5_000;
/**
 * How long a node that fails to name its spork is not asked for its first block: the spork is recorded with that block,
 * and would be recorded without its id, or not at all.
 */
const BORDER_PATIENCE_MS = 600_000;

export type OpenNode = (
  endpoint: Endpoint,
  options: { readonly ratePerSecond: number; readonly isPeer: boolean },
  dependencies: { readonly healthRecord: NodeHealthRecord; readonly events: NodeEvents },
) => PooledNode;

interface Dependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Pick<AccessMetrics, 'endpointLies' | 'invalidBlocks'>;
  readonly openNode: OpenNode;
  readonly expectation: () => Expectation;
}

/** Which heights the nodes have, and the spork of each, as far as usable nodes and the spork table know. */
export type ServedHeights = Pick<
  NodePool,
  | 'source'
  | 'lowestHeight'
  | 'lowestServedFrom'
  | 'servedRanges'
  | 'askAgain'
  | 'sporkRoots'
  | 'liveRoot'
  | 'sporkAt'
  | 'whyUnserved'
  | 'undecidedSporkAt'
  | 'namesServing'
>;

/**
 * The nodes, which of them serve which heights, and the sporks of these. A historic node of the spork table is added when a height that no
 * configured node serves is first wanted; bounded by the table.
 */
export class NodePool {
  /** Called with every node that is added from now on: it needs a handshake. */
  onMember: ((member: PoolMember) => void) | undefined;
  readonly verifier: SporkVerifier;
  /** Who gives the chain, for messages: of a mirror, its peers. */
  readonly source: 'access node' | 'peer';
  readonly #sporks: SporkTable;
  readonly #ratePerSecond: number;
  readonly #dependencies: Dependencies;
  readonly #byName = new Map<string, PoolMember>();
  /** Roots of the followed sporks, ascending; without those of the table. */
  #sporkRoots: readonly number[] = [];

  constructor(
    options: {
      readonly sporks: SporkTable;
      readonly sporkRoot?: number | undefined;
      readonly ratePerSecond: number;
      readonly accessNodes: readonly string[];
    },
    dependencies: Dependencies,
  ) {
    const { clock, expectation } = dependencies;
    this.source = options.accessNodes.length === 0 ? 'peer' : 'access node';
    this.#sporks = options.sporks;
    this.#ratePerSecond = options.ratePerSecond;
    this.#dependencies = dependencies;
    const tabled = options.sporks.flatMap((spork) => [spork.rootHeight, spork.endHeightExclusive]);
    const known = [...tabled, options.sporkRoot ?? null].filter((root) => root !== null);
    this.verifier = new SporkVerifier({ known, clock, members: () => this.#heard, expectation });
  }

  get hasSporks(): boolean {
    return this.#sporks.length > 0;
  }

  get members(): readonly PoolMember[] {
    return [...this.#byName.values()];
  }

  /** The members whose statements about the chain count. */
  get #heard(): readonly PoolMember[] {
    return this.members.filter(isHeard);
  }

  /** The usable peers: indexers of our chain that feed us. */
  peers(): readonly PoolMember[] {
    return this.members.filter((member) => member.roles.peer && isUsable(member));
  }

  /** Why no peer is usable, in words, by peer; `undefined` while one is. */
  whyNoPeer(): string | undefined {
    const peers = this.members.filter(({ roles }) => roles.peer);
    const whys = peers.map(({ foreign, node, trouble }) =>
      foreign === undefined ? trouble : `${node.name} is of another chain (${foreign.reason})`,
    );
    return peers.some(isUsable) ? undefined : whys.filter((why) => why !== undefined).join('; ') || undefined;
  }

  member(name: string): PoolMember | undefined {
    return this.#byName.get(name);
  }

  add(endpoint: Endpoint, origin: PoolMember['origin'], roles: PoolMember['roles']): PoolMember {
    const { logger, metrics, openNode } = this.#dependencies;
    const events: NodeEvents = {
      onLowestHeight: (height) => {
        if (height <= member.refusedBelow) return;
        member.refusedBelow = height;
        this.refreshRanges();
      },
      onHead: (height) => {
        const atMs = this.#dependencies.clock.monotonic();
        noteHead(member, height, atMs);
        const watermark = this.#dependencies.expectation().watermark?.height ?? -1;
        if (height < watermark && atMs - member.askedAtMs >= BELOW_ASKED_EVERY_MS) member.pause.wake();
      },
      onOutage: () => {
        if (member.outage) return;
        member.outage = true;
        member.pause.wake();
      },
      onReconnect: () => {
        // Info only: readiness warns about what these calls hold up.
        logger.info({ endpoint: endpoint.name }, 'calls kept timing out, reconnecting');
      },
    };
    const healthRecord = new NodeHealthRecord({ clock: this.#dependencies.clock });
    const ratePerSecond = this.#rateOf(origin);
    const node = openNode(endpoint, { ratePerSecond, isPeer: roles.peer }, { healthRecord, events });
    const member = new PoolMember(node, origin, roles, this.#dependencies.clock);
    this.#byName.set(node.name, member);
    this.refreshRanges();
    metrics.endpointLies.inc({ endpoint: node.name }, 0);
    for (const reason of blockRefusals) metrics.invalidBlocks.inc({ endpoint: node.name, reason }, 0);
    this.onMember?.(member);
    return member;
  }

  /** Drops a historic node. It is added again when it is wanted again. */
  remove(member: PoolMember): void {
    this.#byName.delete(member.node.name);
    this.verifier.forget(member);
    member.node.close();
    this.refreshRanges();
  }

  /** Nodes that follow the head; if only historic ones are configured, those of the latest spork. */
  live(): readonly PoolMember[] {
    const named = this.named().filter(isUsable);
    const following = named.filter(({ range }) => range.endExclusive === undefined);
    if (following.length > 0) return following;
    const latest = Math.max(...named.map(({ range }) => range.endExclusive ?? 0));
    return named.filter(({ range }) => range.endExclusive === latest);
  }

  /** The configured access nodes. */
  named(): readonly PoolMember[] {
    return this.members.filter(({ origin, roles }) => origin === 'configured' && roles.access);
  }

  /**
   * Usable nodes of a role that serve a height: configured ones if there are any, else historic ones. Empty while it is
   * undecided whether the height belongs to a spork that some node claims.
   */
  serving(height: number, role: keyof PoolMember['roles']): readonly PoolMember[] {
    const serving = this.offered(height, role);
    if (this.verifier.isUndecided(height) || serving.some(({ origin }) => origin === 'configured'))
      return serving;
    const nodes = sporkOf(this.#sporks, height)?.accessNodes ?? [];
    if (serving.length === 0 && nodes.length === 0) this.askAgain();
    for (const endpoint of nodes.map(parseEndpoint)) {
      const member =
        this.#byName.get(endpoint.name) ??
        this.add(endpoint, 'historic', { access: true, executionData: true, peer: false });
      member.wantedAtMs = this.#dependencies.clock.monotonic();
    }
    return serving;
  }

  /** Nodes that may have a height, and whose first handshake is not over: configured ones, and historic ones of its spork. */
  untried(height: number): readonly PooledNode[] {
    const historic = new Set(
      sporkOf(this.#sporks, height)?.accessNodes.map((each) => parseEndpoint(each).name),
    );
    const mayHave = ({ node, origin, roles }: PoolMember): boolean =>
      origin === 'configured' ? roles.access : historic.has(node.name);
    return this.members.filter((member) => !member.tried && mayHave(member)).map(({ node }) => node);
  }

  /** Identifies the nodes again, because none serves a wanted height: their known ranges may be wrong or outdated. */
  askAgain(): void {
    const beforeMs = this.#dependencies.clock.monotonic() - UNSERVED_ASKED_EVERY_MS;
    for (const member of this.named())
      if (isUsable(member) && member.askedAtMs <= beforeMs) member.pause.wake();
  }

  /** True when the index has reached the first height of this node, and the node may yet name its spork. */
  mayNameSpork({ beginning, identity, range }: PoolMember, height: number): boolean {
    if (identity?.rootTrouble === undefined || beginning === undefined || range.lowest !== height)
      return false;
    const isCrossing = (this.#dependencies.expectation().firstHeight ?? Infinity) < height;
    return isCrossing && this.#dependencies.clock.monotonic() - beginning.sinceMs < BORDER_PATIENCE_MS;
  }

  /** What `serving` would return, without adding or keeping a historic node: a report must not cause connections. */
  offered(height: number, role: keyof PoolMember['roles']): readonly PoolMember[] {
    if (this.verifier.isUndecided(height)) return [];
    const serving = this.members.filter(
      (member) =>
        member.roles[role] &&
        isUsable(member) &&
        covers(member.range, height) &&
        !this.mayNameSpork(member, height),
    );
    const named = serving.filter(({ origin }) => origin === 'configured');
    return named.length > 0 ? named : serving;
  }

  /** Call it after every handshake: the node's spork may end the range of another node. */
  refreshRanges(): void {
    const roots = new Set<number>(this.verifier.known);
    for (const member of this.#heard) {
      const root = member.identity?.sporkRootHeight;
      if (root === undefined || !isUsable(member)) continue;
      if (this.verifier.verdict(root) === 'followed') roots.add(root);
      this.verifier.rememberId(root);
    }
    this.#sporkRoots = [...roots].sort((a, b) => a - b);
    for (const member of this.members) member.range = rangeOf(member, this.#sporkRoots);
  }

  /** The lowest height that a usable node, or a historic one of the table, serves; `undefined` when unknown. */
  lowestHeight(): number | undefined {
    return minimum(this.servedRanges().map(({ lowest }) => lowest));
  }

  /** The lowest height, from this one up, that a usable node or a historic one of the table serves. */
  lowestServedFrom(height: number): number | undefined {
    const reaching = this.servedRanges().filter(
      ({ endExclusive }) => endExclusive === undefined || endExclusive > height,
    );
    return minimum(reaching.map(({ lowest }) => Math.max(lowest ?? height, height)));
  }

  /** The ranges of each usable node, and of the historic nodes of each spork of the table. */
  servedRanges(): readonly ServedRange[] {
    const usable = this.members.filter((member) => member.roles.access && isUsable(member));
    return [
      ...usable.map(({ range }) => range),
      ...this.#sporks
        .filter(({ accessNodes }) => accessNodes.length > 0)
        .map(({ rootHeight, endHeightExclusive }) => ({
          lowest: rootHeight,
          endExclusive: endHeightExclusive ?? undefined,
        })),
    ];
  }

  /** Heights at which a spork begins, as far as usable nodes and the table know. */
  sporkRoots(): readonly number[] {
    return [...this.#sporkRoots, ...this.#sporks.map(({ rootHeight }) => rootHeight)];
  }

  /** The lowest height that the nodes of the live spork serve; `undefined` when unknown. */
  liveRoot(): number | undefined {
    return minimum(this.live().map(({ range }) => range.lowest));
  }

  /**
   * The spork of a height, as far as usable nodes and the table know. Its id is the one that a majority of the nodes that
   * name one agree on, or the last agreed one while no node names any; empty if there is none.
   */
  sporkAt(height: number): SporkRoot | undefined {
    // The table needs no confirmation. Asked for every block, so without lists in between.
    let rootHeight = sporkOf(this.#sporks, height)?.rootHeight;
    if (this.verifier.wasFollowed(height)) rootHeight = height;
    for (const member of this.members) {
      const root = member.identity?.sporkRootHeight;
      if (root === undefined || root > height || root <= (rootHeight ?? -1)) continue;
      if (isHeard(member) && isUsable(member) && this.verifier.mayRecord(root, height)) rootHeight = root;
    }
    return rootHeight === undefined ? undefined : { rootHeight, sporkId: this.verifier.agreedId(rootHeight) };
  }

  /** Why no node serves the height: the first or last height of each configured node, or why it cannot name its spork. */
  whyUnserved(height: number): readonly NodeTrouble[] {
    return this.members.flatMap((member): readonly NodeTrouble[] => {
      const { node, range, beginning, origin, troubles } = member;
      if (this.mayNameSpork(member, height)) return troubles.all();
      if (origin !== 'configured' || !member.roles.access) return [];
      if (beginning === undefined) return troubles.all();
      const { lowest = 0, endExclusive = Infinity } = range;
      const said =
        height < lowest
          ? `says it begins at ${lowest}`
          : height >= endExclusive
            ? `is of a spork that ends below ${endExclusive}`
            : undefined;
      if (said === undefined) return [];
      const { count, sinceMs } = beginning;
      return [{ node: node.name, method: 'GetNodeVersionInfo', kind: 'refused', said, count, sinceMs }];
    });
  }

  /** The spork because of which this height and those above are not requested: nobody knows yet whether it exists. */
  undecidedSporkAt(height: number): UndecidedSpork | undefined {
    return this.verifier.undecidedAt(height);
  }

  /**
   * The names of the nodes that `AccessNodes.forHeight` would return now. For reports: it neither dials nor keeps a
   * historic node.
   */
  namesServing(height: number): ReadonlySet<string> {
    return new Set(this.offered(height, 'access').map(({ node }) => node.name));
  }

  #rateOf(origin: PoolMember['origin']): number {
    const ratePerSecond = this.#ratePerSecond;
    if (origin === 'configured') return ratePerSecond;
    return ratePerSecond === 0 ? HISTORIC_RATE_PER_SECOND : Math.min(ratePerSecond, HISTORIC_RATE_PER_SECOND);
  }
}

function minimum(heights: readonly (number | undefined)[]): number | undefined {
  const known = heights.filter((height) => height !== undefined);
  return known.length === 0 ? undefined : known.reduce((a, b) => Math.min(a, b));
}
