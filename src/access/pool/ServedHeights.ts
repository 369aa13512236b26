import type { NodeTrouble } from '../selection/NodeTroubles.js';
import type { SporkRoot } from './identity/nodeIdentity.js';
import type { NodePool } from './NodePool.js';
import { isHeard, isUsable } from './poolMember.js';
import type { ServedRange } from './poolMember.js';
import type { UndecidedSpork } from './sporks/SporkVerifier.js';
import { sporkOf } from './sporks/sporkTable.js';
import type { SporkTable } from './sporks/sporkTable.js';

/** Which heights the nodes have, and the spork of each, as far as usable nodes and the spork table know. */
export class ServedHeights {
  /** Who gives the chain, for messages: of a mirror, its peers. */
  readonly source: 'access node' | 'peer';
  readonly #sporks: SporkTable;
  readonly #pool: NodePool;

  constructor(
    options: { readonly sporks: SporkTable; readonly accessNodes: readonly string[] },
    dependencies: { readonly pool: NodePool },
  ) {
    this.source = options.accessNodes.length === 0 ? 'peer' : 'access node';
    this.#sporks = options.sporks;
    this.#pool = dependencies.pool;
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
    const usable = this.#pool.members.filter((member) => member.roles.access && isUsable(member));
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

  /** Asks each node again which heights it has, because planned ones are in none of `servedRanges`. */
  askAgain(): void {
    this.#pool.identifyAgain();
  }

  /** Heights at which a spork begins, as far as usable nodes and the table know. */
  sporkRoots(): readonly number[] {
    return [...this.#pool.sporkRoots, ...this.#sporks.map(({ rootHeight }) => rootHeight)];
  }

  /** The lowest height that the nodes of the live spork serve; `undefined` when unknown. */
  liveRoot(): number | undefined {
    return minimum(this.#pool.live().map(({ range }) => range.lowest));
  }

  /**
   * The spork of a height, as far as usable nodes and the table know. Its id is the one that a majority of the nodes that
   * name one agree on, or the last agreed one while no node names any; empty if there is none.
   */
  sporkAt(height: number): SporkRoot | undefined {
    const roots = this.#pool.members
      .filter((member) => isHeard(member) && isUsable(member))
      .map(({ identity }) => identity?.sporkRootHeight)
      .filter((root) => root !== undefined && root <= height && this.#pool.verifier.mayRecord(root, height))
      // The table needs no confirmation.
      .concat(sporkOf(this.#sporks, height)?.rootHeight)
      .concat(this.#pool.verifier.wasFollowed(height) ? height : undefined);
    const rootHeight = maximum(roots);
    return rootHeight === undefined
      ? undefined
      : { rootHeight, sporkId: this.#pool.verifier.agreedId(rootHeight) };
  }

  /** Why no node serves the height: the first or last height of each configured node, or why it cannot name its spork. */
  whyUnserved(height: number): readonly NodeTrouble[] {
    return this.#pool.members.flatMap((member): readonly NodeTrouble[] => {
      const { node, range, beginning, origin, troubles } = member;
      if (this.#pool.mayNameSpork(member, height)) return troubles.all();
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
    return this.#pool.verifier.undecidedAt(height);
  }

  /**
   * The names of the nodes that `AccessNodes.forHeight` would return now. For reports: it neither dials nor keeps a
   * historic node.
   */
  namesServing(height: number): ReadonlySet<string> {
    return new Set(this.#pool.offered(height, 'access').map(({ node }) => node.name));
  }
}

function minimum(heights: readonly (number | undefined)[]): number | undefined {
  const known = heights.filter((height) => height !== undefined);
  return known.length === 0 ? undefined : known.reduce((a, b) => Math.min(a, b));
}

function maximum(heights: readonly (number | undefined)[]): number | undefined {
  const known = heights.filter((height) => height !== undefined);
  return known.length === 0 ? undefined : known.reduce((a, b) => Math.max(a, b));
}
