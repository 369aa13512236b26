import type { Clock } from '../../../runtime/index.js';
import type { Expectation } from '../identity/nodeIdentity.js';
import { anchorOf, isUsable, RISES_KEPT, type PoolMember } from '../PoolMember.js';

/** A chain that has not grown for this long counts as ended. */
const STANDSTILL_MS = 30_000;
/** How long to wait for a node that reports no head. */
const NO_HEAD_MS = 60_000;
/** Sporks whose agreed id is remembered: far more than a daemon sees while it runs. */
const REMEMBERED_SPORKS_MAX = 64;

/**
 * `followed`: the spork ends the heights of earlier ones. `contradicted`: it does not, as another node's chain continues
 * above its root. `undecided`: other nodes have not shown yet which of the two is true.
 */
export type SporkVerdict = 'followed' | 'contradicted' | 'undecided';

/** A spork that nodes claim and that is neither in the spork table nor configured. */
interface Claim {
  readonly rootHeight: number;
  readonly reportedAtMs: number;
  verdict: SporkVerdict;
}

/** An undecided spork, and which nodes could decide it. */
export interface UndecidedSpork {
  readonly rootHeight: number;
  /** The nodes that claim it. */
  readonly reporters: readonly string[];
  /** The nodes of earlier sporks that neither contradict it nor have ended. */
  readonly awaited: readonly string[];
}

interface Parts {
  /** Where the sporks that need no verification begin and end. */
  readonly known: readonly number[];
  readonly clock: Clock;
  /** The nodes whose statements about the chain count. */
  readonly members: () => readonly PoolMember[];
  readonly expectation: () => Expectation;
}

/**
 * Decides which sporks are followed. Those of the spork table and the configuration are. A spork that only nodes claim
 * is followed unless an honest node contradicts it; the parent links check that its first block continues our chain.
 *
 * A claim says that the nodes of earlier sporks have nothing above its root. If it were a lie, only the liar would be
 * asked for those heights. So each of those nodes is checked first: one whose chain continues above the root contradicts
 * the claim. A block just at the root is no contradiction: the spork may have discarded it. Bounded by the number of
 * nodes: one claim each.
 */
export class SporkVerifier {
  readonly known: readonly number[];
  readonly #parts: Parts;
  /**
   * The id of each spork, by its root, on which most of the usable nodes that name one agree. Remembered: when the only node
   * of a spork moves to another chain, its blocks may still be on their way into the store, and the recorded id must not
   * depend on that.
   */
  readonly #agreedIds = new Map<number, string>();
  readonly #claims = new Map<number, Claim>();
  /**
   * Roots of sporks that were followed: their blocks may be on their way into the store. Remembered, as the ids are: a
   * node that briefly cannot name its root withdraws its claim, and makes it again.
   */
  readonly #followed = new Set<number>();
  /** Nodes whose claim was contradicted: their next claim delays nothing. */
  readonly #doubted = new WeakSet<PoolMember>();

  constructor(parts: Parts) {
    this.known = parts.known;
    this.#parts = parts;
  }

  /**
   * Call it after every handshake, successful or not: judges all claims again. Returns whether there is a new one, and
   * those that are newly contradicted.
   */
  update(): { readonly isNews: boolean; readonly contradicted: readonly UndecidedSpork[] } {
    const isNews = this.#collect();
    const contradicted: UndecidedSpork[] = [];
    for (const claim of this.#claims.values()) {
      const before = claim.verdict;
      claim.verdict = this.#judge(claim);
      if (claim.verdict === 'followed') forgetOldest(this.#followed.add(claim.rootHeight));
      if (claim.verdict !== 'contradicted') continue;
      this.#followed.delete(claim.rootHeight);
      for (const reporter of this.#reporters(claim)) this.#doubted.add(reporter);
      if (before !== 'contradicted') contradicted.push(this.#describe(claim));
    }
    return { isNews, contradicted };
  }

  verdict(rootHeight: number): SporkVerdict {
    if (this.known.includes(rootHeight)) return 'followed';
    // `undecided`: a claim that is being made, and is entered after the handshake.
    return this.#claims.get(rootHeight)?.verdict ?? 'undecided';
  }

  /**
   * A spork that begins at this height was followed, and nothing has contradicted it since, though another node may have
   * appeared that has to be checked: its root may be recorded with it.
   */
  wasFollowed(rootHeight: number): boolean {
    return this.#followed.has(rootHeight);
  }

  /** The undecided spork because of which this height and those above are not requested. */
  undecidedAt(height: number): UndecidedSpork | undefined {
    for (const claim of this.#claims.values()) {
      if (claim.verdict !== 'undecided' || claim.rootHeight > height) continue;
      if (this.#reporters(claim).some((reporter) => !this.#doubted.has(reporter)))
        return this.#describe(claim);
    }
    return undefined;
  }

  /** True for a node whose head may still change a verdict. */
  isWitness(member: PoolMember): boolean {
    return [...this.#claims.values()].some(
      (claim) =>
        claim.verdict !== 'contradicted' && !this.#isStored(claim) && this.#witnesses(claim).includes(member),
    );
  }

  /** The id named by a majority, or the last agreed id while no node names any; empty if there is none. */
  agreedId(rootHeight: number): string {
    const reported = this.#reporters({ rootHeight })
      .map(({ identity }) => identity?.sporkId ?? '')
      .filter((sporkId) => sporkId !== '');
    if (reported.length === 0) return this.#agreedIds.get(rootHeight) ?? '';
    return reported.find((id) => 2 * reported.filter((other) => other === id).length > reported.length) ?? '';
  }

  /** Enters new claims and the ids of sporks, and drops claims that no node makes any longer. True when there is a new one. */
  #collect(): boolean {
    const members = this.#parts.members().filter(isUsable);
    const reported = new Set(members.flatMap(({ identity }) => identity?.sporkRootHeight ?? []));
    for (const root of reported) {
      const agreed = this.agreedId(root);
      if (agreed === '') continue;
      this.#agreedIds.delete(root);
      forgetOldest(this.#agreedIds.set(root, agreed));
    }
    for (const known of this.known) reported.delete(known);
    for (const root of [...this.#claims.keys()]) if (!reported.has(root)) this.#claims.delete(root);
    const made = [...reported].filter((root) => !this.#claims.has(root));
    const reportedAtMs = this.#parts.clock.monotonic();
    for (const rootHeight of made)
      this.#claims.set(rootHeight, { rootHeight, reportedAtMs, verdict: 'undecided' });
    return made.length > 0;
  }

  #judge(claim: Claim): SporkVerdict {
    const witnesses = this.#witnesses(claim);
    if (witnesses.some((witness) => hasContinued(witness, claim))) return 'contradicted';
    if (this.#isStored(claim)) return 'followed';
    return this.#awaited(claim).length > 0 ? 'undecided' : 'followed';
  }

  #isStored(claim: Claim): boolean {
    return this.#parts.expectation().sporks.some(({ rootHeight }) => rootHeight === claim.rootHeight);
  }

  #reporters({ rootHeight }: Pick<Claim, 'rootHeight'>): readonly PoolMember[] {
    const usable = this.#parts.members().filter(isUsable);
    return usable.filter(({ identity }) => identity?.sporkRootHeight === rootHeight);
  }

  /** Nodes of earlier sporks whose heights the claim would end: configured ones that did not end before. */
  #witnesses({ rootHeight }: Claim): readonly PoolMember[] {
    return this.#parts.members().filter((member) => {
      if (member.origin !== 'configured' || !isUsable(member)) return false;
      const anchor = anchorOf(member);
      if (anchor === undefined || anchor >= rootHeight) return false;
      return !this.known.some((root) => root > anchor && root <= rootHeight);
    });
  }

  /** The nodes that may still contradict the claim. */
  #awaited(claim: Claim): readonly PoolMember[] {
    const unknown = this.#parts
      .members()
      .filter(({ identity, origin }) => origin === 'configured' && identity === undefined);
    // A store without blocks below the root has nothing to lose.
    const isAboveFirst = (this.#parts.expectation().firstHeight ?? Infinity) < claim.rootHeight;
    const isWaitedFor = isAboveFirst && this.#isYoung(claim.reportedAtMs);
    const witnesses = this.#witnesses(claim).filter((witness) => this.#mayContinue(witness, claim));
    return [...unknown.filter(({ tried }) => !tried || isWaitedFor), ...witnesses];
  }

  /** The node's head has not been seen to stall since the claim, and was reported recently. */
  #mayContinue({ head, risesMs }: PoolMember, { reportedAtMs }: Claim): boolean {
    const headAtMs = head?.atMs ?? -Infinity;
    if (headAtMs - Math.max(reportedAtMs, risesMs.at(-1) ?? -Infinity) >= STANDSTILL_MS) return false;
    return this.#isYoung(Math.max(reportedAtMs, headAtMs));
  }

  #isYoung(sinceMs: number): boolean {
    return this.#parts.clock.monotonic() - sinceMs < NO_HEAD_MS;
  }

  #describe(claim: Claim): UndecidedSpork {
    const namesOf = (members: readonly PoolMember[]): string[] => members.map(({ node }) => node.name);
    const { rootHeight } = claim;
    return { rootHeight, reporters: namesOf(this.#reporters(claim)), awaited: namesOf(this.#awaited(claim)) };
  }
}

function forgetOldest(remembered: Set<number> | Map<number, string>): void {
  for (const oldest of remembered.keys())
    if (remembered.size > REMEMBERED_SPORKS_MAX) remembered.delete(oldest);
}

/** True when the node's chain has grown since the claim, and is above the root. */
function hasContinued({ highestHead, risesMs }: PoolMember, { rootHeight, reportedAtMs }: Claim): boolean {
  const [first = -Infinity] = risesMs;
  return risesMs.length === RISES_KEPT && first >= reportedAtMs && highestHead >= rootHeight;
}
