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
export function sporkVerifier({ clock, expectation, known, members }: Parts) {
  /**
   * The id of each spork, by its root, on which most of the usable nodes that name one agree. Remembered: when the only node
   * of a spork moves to another chain, its blocks may still be on their way into the store, and the recorded id must not
   * depend on that.
   */
  const agreedIds = new Map<number, string>();
  const claims = new Map<number, Claim>();
  /**
   * Roots of sporks that were followed: their blocks may be on their way into the store. Remembered, as the ids are: a
   * node that briefly cannot name its root withdraws its claim, and makes it again.
   */
  const followed = new Set<number>();
  /** Nodes whose claim was contradicted: their next claim delays nothing. */
  const doubted = new WeakSet<PoolMember>();

  const isYoung = (sinceMs: number): boolean => clock.monotonic() - sinceMs < NO_HEAD_MS;

  const reportersOf = (root: number): readonly PoolMember[] =>
    members().filter((member) => isUsable(member) && member.identity?.sporkRootHeight === root);

  /** The id named by a majority, or the last agreed id while no node names any; empty if there is none. */
  const agreedId = (rootHeight: number): string => {
    const ids = reportersOf(rootHeight).map(({ identity }) => identity?.sporkId ?? '');
    const reported = ids.filter((sporkId) => sporkId !== '');
    if (reported.length === 0) return agreedIds.get(rootHeight) ?? '';
    return reported.find((id) => 2 * reported.filter((other) => other === id).length > reported.length) ?? '';
  };

  const isStored = (claim: Claim): boolean =>
    expectation().sporks.some(({ rootHeight }) => rootHeight === claim.rootHeight);

  /** Nodes of earlier sporks whose heights the claim would end: configured ones that did not end before. */
  const witnessesOf = ({ rootHeight }: Claim): readonly PoolMember[] =>
    members().filter((member) => {
      if (member.origin !== 'configured' || !isUsable(member)) return false;
      const anchor = anchorOf(member);
      if (anchor === undefined || anchor >= rootHeight) return false;
      return !known.some((root) => root > anchor && root <= rootHeight);
    });

  /** The nodes that may still contradict the claim. */
  const awaitedFor = (claim: Claim): readonly PoolMember[] => {
    // A store without blocks below the root has nothing to lose.
    const isAboveFirst = (expectation().firstHeight ?? Infinity) < claim.rootHeight;
    const isWaitedFor = isAboveFirst && isYoung(claim.reportedAtMs);
    const unknown = members().filter(
      ({ identity, origin, tried }) =>
        origin === 'configured' && identity === undefined && (!tried || isWaitedFor),
    );
    return [...unknown, ...witnessesOf(claim).filter((witness) => mayContinue(witness, claim))];
  };

  /** The node's head has not been seen to stall since the claim, and was reported recently. */
  const mayContinue = ({ head, risesMs }: PoolMember, { reportedAtMs }: Claim): boolean => {
    const headAtMs = head?.atMs ?? -Infinity;
    if (headAtMs - Math.max(reportedAtMs, risesMs.at(-1) ?? -Infinity) >= STANDSTILL_MS) return false;
    return isYoung(Math.max(reportedAtMs, headAtMs));
  };

  const judge = (claim: Claim): SporkVerdict => {
    const witnesses = witnessesOf(claim);
    if (witnesses.some((witness) => hasContinued(witness, claim))) return 'contradicted';
    return isStored(claim) || awaitedFor(claim).length === 0 ? 'followed' : 'undecided';
  };

  const describe = (claim: Claim): UndecidedSpork => {
    const namesOf = (some: readonly PoolMember[]): string[] => some.map(({ node }) => node.name);
    const { rootHeight } = claim;
    return { rootHeight, reporters: namesOf(reportersOf(rootHeight)), awaited: namesOf(awaitedFor(claim)) };
  };

  /** Enters new claims and the ids of sporks, and drops claims that no node makes any longer. True when there is a new one. */
  const collect = (): boolean => {
    const usable = members().filter(isUsable);
    const reported = new Set(usable.flatMap(({ identity }) => identity?.sporkRootHeight ?? []));
    for (const root of reported) {
      const agreed = agreedId(root);
      if (agreed === '') continue;
      agreedIds.delete(root);
      forgetOldest(agreedIds.set(root, agreed));
    }
    for (const root of claims.keys()) if (!reported.has(root)) claims.delete(root);
    const made = [...reported].filter((root) => !known.includes(root) && !claims.has(root));
    const reportedAtMs = clock.monotonic();
    for (const rootHeight of made) claims.set(rootHeight, { rootHeight, reportedAtMs, verdict: 'undecided' });
    return made.length > 0;
  };

  return {
    known,
    agreedId,
    /**
     * Call it after every handshake, successful or not: judges all claims again. Returns whether there is a new one, and
     * those that are newly contradicted.
     */
    update: () => {
      const isNews = collect();
      const contradicted: UndecidedSpork[] = [];
      for (const claim of claims.values()) {
        const before = claim.verdict;
        claim.verdict = judge(claim);
        if (claim.verdict === 'followed') forgetOldest(followed.add(claim.rootHeight));
        if (claim.verdict !== 'contradicted') continue;
        followed.delete(claim.rootHeight);
        for (const reporter of reportersOf(claim.rootHeight)) doubted.add(reporter);
        if (before !== 'contradicted') contradicted.push(describe(claim));
      }
      return { isNews, contradicted };
    },
    /** `undecided` also of a claim that is being made, and is entered after the handshake. */
    verdict: (rootHeight: number): SporkVerdict =>
      known.includes(rootHeight) ? 'followed' : (claims.get(rootHeight)?.verdict ?? 'undecided'),
    /**
     * A spork that begins at this height was followed, and nothing has contradicted it since, though another node may have
     * appeared that has to be checked: its root may be recorded with it.
     */
    wasFollowed: (rootHeight: number): boolean => followed.has(rootHeight),
    /** The undecided spork because of which this height and those above are not requested. */
    undecidedAt: (height: number): UndecidedSpork | undefined => {
      const claim = [...claims.values()].find(
        ({ rootHeight, verdict }) =>
          verdict === 'undecided' &&
          rootHeight <= height &&
          reportersOf(rootHeight).some((reporter) => !doubted.has(reporter)),
      );
      return claim && describe(claim);
    },
    /** True for a node whose head may still change a verdict. */
    isWitness: (member: PoolMember): boolean =>
      [...claims.values()].some(
        (claim) =>
          claim.verdict !== 'contradicted' && !isStored(claim) && witnessesOf(claim).includes(member),
      ),
  };
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
