import type { Clock } from '../../runtime/index.js';
import type { LatestBlock } from './nodeIdentity.js';
import { anchorOf, isUsable } from './poolMember.js';
import type { PoolMember } from './poolMember.js';

/** A chain that has not grown for so long has come to its end, where a node says that another began there. */
const STANDSTILL_MS = 30_000;
/** So old a latest block need not be watched: its chain stands still already. */
const AGED_MS = 600_000;
/** A chain that was seen to grow so often, and past the root of its successor, has none. */
const RISES_MIN = 3;
/** How often nodes are looked at that can tell; after `SOON_FOR_MS` the other. */
const LOOK_SOON_MS = 5_000;
const LOOK_LATER_MS = 30_000;
const SOON_FOR_MS = 120_000;
/** Nodes that have not answered for so long decide nothing. */
const UNHEARD_MS = 60_000;
/** A node whose claim was refuted does not hold up the heights by the next one for so long. */
const DISTRUST_MS = 600_000;

/**
 * `accepted`: the spork ends the heights of earlier ones. `refuted`: it does not. `open`: while the others are asked and looked
 * at, nobody is asked for its heights.
 */
export type SporkVerdict = 'accepted' | 'open' | 'refuted';

/** What was seen of the chain of a node that is of an earlier spork, since the claim was made. */
interface Look {
  readonly highest: number;
  readonly risenAtMs: number;
  readonly rises: number;
  readonly standsStill: boolean;
}

interface Claim {
  readonly rootHeight: number;
  readonly toldAtMs: number;
  /** Made by a node whose last one was refuted a moment ago: it counts for something only with most of the others. */
  readonly isDistrusted: boolean;
  /** By node; `undefined` for one that cannot tell its latest block. */
  readonly looks: Map<PoolMember, Look | undefined>;
  isAnnounced: boolean;
  /** It has been accepted once: blocks of its heights may be on their way into the store. */
  wasAccepted: boolean;
}

export interface SporkClaimsDependencies {
  readonly clock: Clock;
  members(): readonly PoolMember[];
  /** Where the sporks of the table begin and end. */
  readonly tabled: readonly number[];
  /** True for a root that the store has crossed. */
  isStored(rootHeight: number): boolean;
}

/** What an answer brought about. */
export interface ClaimNews {
  /** Nodes to be asked at once. */
  readonly toAsk: readonly PoolMember[];
  /** Claims that turned out to be none. */
  readonly refuted: readonly { readonly rootHeight: number; readonly tellers: readonly PoolMember[] }[];
}

/**
 * Which sporks that the table does not have are believed. A node that tells of one says by that, that the nodes of earlier
 * sporks have nothing above its root: a lie about it would leave the liar alone with those heights, and the daemon in its hands.
 *
 * Those who tell the same are believed where they are more than the others that should know. Fewer are believed where the
 * chains of the others stand still, as they do when a spork has ended, and not where one of them grows past the root: a chain
 * that goes on has no successor. That another has our last block above the root says nothing: the spork may have discarded
 * it. Bounded by the number of nodes: one claim each, and of each claim one look at each.
 */
export class SporkClaims {
  readonly #clock: Clock;
  readonly #dependencies: SporkClaimsDependencies;
  readonly #claims = new Map<number, Claim>();
  readonly #refutedAtMs = new Map<PoolMember, number>();

  constructor(dependencies: SporkClaimsDependencies) {
    this.#clock = dependencies.clock;
    this.#dependencies = dependencies;
  }

  /** The roots of the spork table, which is believed. */
  get tabled(): readonly number[] {
    return this.#dependencies.tabled;
  }

  /** True while there are claims: the latest blocks of nodes are of interest then. */
  get any(): boolean {
    return this.#claims.size > 0;
  }

  /** True while a verdict is still to be found. */
  get anyOpen(): boolean {
    return [...this.#claims.values()].some((claim) => this.#judge(claim) === 'open');
  }

  /** To be called once a node was asked who it is, whatever came of it, and all were judged. */
  answered(asked: PoolMember): ClaimNews {
    const made = this.#collect();
    for (const claim of this.#claims.values()) {
      if (made.includes(claim) || asked.outage || !this.#witnesses(claim).includes(asked)) continue;
      const latest = asked.identity?.latest;
      if (latest === undefined) continue;
      claim.looks.set(asked, latest === 'untold' ? undefined : this.#look(claim.looks.get(asked), latest));
    }
    return {
      toAsk: made.flatMap((claim) => this.#witnesses(claim).filter((member) => member !== asked)),
      refuted: this.#refuted(),
    };
  }

  verdict(rootHeight: number): SporkVerdict {
    if (this.#dependencies.tabled.includes(rootHeight)) return 'accepted';
    const claim = this.#claims.get(rootHeight);
    // Told this moment: who told it is entered with the answer.
    return claim === undefined ? 'open' : this.#judge(claim);
  }

  /**
   * True for a spork that blocks may be recorded as being of: it is accepted, or was until somebody else came who has to be heard.
   */
  mayRecord(rootHeight: number): boolean {
    const verdict = this.verdict(rootHeight);
    return (
      verdict === 'accepted' || (verdict === 'open' && this.#claims.get(rootHeight)?.wasAccepted === true)
    );
  }

  /** True while it is not known whether a height is of a spork that somebody told of. */
  isOpen(height: number): boolean {
    for (const claim of this.#claims.values()) {
      if (claim.rootHeight <= height && this.#judge(claim) === 'open') return true;
    }
    return false;
  }

  /** In how long a node is to be asked again for the sake of a claim; `undefined` when no claim depends on it. */
  lookInMs(member: PoolMember): number | undefined {
    const nowMs = this.#clock.monotonic();
    const pauses = [...this.#claims.values()]
      .filter((claim) => this.#judge(claim) !== 'refuted' && !this.#dependencies.isStored(claim.rootHeight))
      .filter((claim) => this.#witnesses(claim).includes(member))
      .map(({ looks, toldAtMs }) => {
        if (!looks.has(member)) return 0;
        return nowMs - toldAtMs < SOON_FOR_MS ? LOOK_SOON_MS : LOOK_LATER_MS;
      });
    return pauses.length === 0 ? undefined : Math.min(...pauses);
  }

  forget(member: PoolMember): void {
    this.#refutedAtMs.delete(member);
    for (const { looks } of this.#claims.values()) looks.delete(member);
    this.#collect();
  }

  /** Enters the claims that are new, and drops those that nobody makes any more. */
  #collect(): readonly Claim[] {
    const { tabled } = this.#dependencies;
    const told = new Set(
      this.#dependencies
        .members()
        .filter(isUsable)
        .flatMap(({ identity }) => identity?.sporkRootHeight ?? [])
        .filter((root) => !tabled.includes(root)),
    );
    for (const root of [...this.#claims.keys()]) if (!told.has(root)) this.#claims.delete(root);
    const toldAtMs = this.#clock.monotonic();
    const made = [...told]
      .filter((rootHeight) => !this.#claims.has(rootHeight))
      .map((rootHeight): Claim => {
        const isDistrusted = this.#tellers(rootHeight).every(
          (teller) => toldAtMs < (this.#refutedAtMs.get(teller) ?? -Infinity) + DISTRUST_MS,
        );
        return {
          rootHeight,
          toldAtMs,
          isDistrusted,
          looks: new Map(),
          isAnnounced: false,
          wasAccepted: false,
        };
      });
    for (const claim of made) this.#claims.set(claim.rootHeight, claim);
    return made;
  }

  #look(before: Look | undefined, { height, timestampMs }: LatestBlock): Look {
    const nowMs = this.#clock.monotonic();
    const isAged = timestampMs !== undefined && timestampMs + AGED_MS < this.#clock.now();
    if (before === undefined) return { highest: height, risenAtMs: nowMs, rises: 0, standsStill: isAged };
    const { highest, risenAtMs, rises } = before;
    if (height > highest) return { highest: height, risenAtMs: nowMs, rises: rises + 1, standsStill: isAged };
    return { highest, risenAtMs, rises, standsStill: isAged || nowMs - risenAtMs >= STANDSTILL_MS };
  }

  #judge(claim: Claim): SporkVerdict {
    const verdict = this.#weigh(claim);
    if (verdict === 'accepted') claim.wasAccepted = true;
    return verdict;
  }

  #weigh(claim: Claim): SporkVerdict {
    const { rootHeight, toldAtMs, looks } = claim;
    const witnesses = this.#witnesses(claim);
    const isStored = this.#dependencies.isStored(rootHeight);
    const isYoung = this.#clock.monotonic() < toldAtMs + UNHEARD_MS;
    if (isYoung && !isStored && !claim.isDistrusted && witnesses.some((witness) => !looks.has(witness))) {
      return 'open';
    }
    if (this.#tellers(rootHeight).length > witnesses.length) return 'accepted';
    if (claim.isDistrusted || witnesses.some((witness) => goesOn(witness, claim))) return 'refuted';
    if (isStored) return 'accepted';
    const isWatched = witnesses.some((witness) => looks.get(witness)?.standsStill === false);
    return isWatched ? 'open' : 'accepted';
  }

  #tellers(rootHeight: number): readonly PoolMember[] {
    return this.#dependencies
      .members()
      .filter((member) => isUsable(member) && member.identity?.sporkRootHeight === rootHeight);
  }

  /**
   * Nodes of earlier sporks whose heights the claim would end: those the operator named, that did not end before. One that
   * cannot be reached is waited for as long as one that does not answer.
   */
  #witnesses({ rootHeight, toldAtMs }: Claim): readonly PoolMember[] {
    const { tabled } = this.#dependencies;
    const isYoung = this.#clock.monotonic() < toldAtMs + UNHEARD_MS;
    return this.#dependencies.members().filter((member) => {
      if (member.origin !== 'configured' || (member.outage && !isYoung) || !isUsable(member)) return false;
      const anchor = anchorOf(member);
      if (anchor === undefined || anchor >= rootHeight) return false;
      return !tabled.some((root) => root > anchor && root <= rootHeight);
    });
  }

  #refuted(): ClaimNews['refuted'] {
    const nowMs = this.#clock.monotonic();
    return [...this.#claims.values()].flatMap((claim) => {
      if (this.#judge(claim) !== 'refuted') return [];
      const { rootHeight, isAnnounced } = claim;
      const tellers = this.#tellers(rootHeight);
      for (const teller of tellers) this.#refutedAtMs.set(teller, nowMs);
      claim.isAnnounced = true;
      return isAnnounced ? [] : [{ rootHeight, tellers }];
    });
  }
}

function goesOn(witness: PoolMember, { looks, rootHeight }: Claim): boolean {
  const look = looks.get(witness);
  return look !== undefined && look.rises >= RISES_MIN && look.highest >= rootHeight;
}
