import type { Clock } from '../../../runtime/index.js';
import { abortReason, childOf, Listeners, unlessAborted } from '../../../runtime/index.js';
import type { ChainCheck } from './ChainCheck.js';
import type { NodePool } from '../NodePool.js';
import { isUsable } from '../poolMember.js';
import type { PoolMember } from '../poolMember.js';
import type { ServedHeights } from '../ServedHeights.js';

/** How long a new store waits for nodes to name their spork. */
const ROOT_WAIT_MS = 60_000;
/** How long to wait for nodes that fail to answer. */
const TROUBLED_ROOT_WAIT_MS = 4_500;
/** How long to wait for the verdict on sporks that only nodes claim. */
const SPORKS_WAIT_MS = 60_000;

/** The waits of a start for the nodes' handshakes, which must be running. Expected errors of each: the signal's abort reason. */
export class StartWaits {
  readonly #pool: NodePool;
  readonly #check: ChainCheck;
  readonly #heights: ServedHeights;
  readonly #clock: Clock;
  readonly #watchers = new Listeners();
  #wantsRoot = false;

  constructor(dependencies: {
    readonly pool: NodePool;
    readonly check: ChainCheck;
    readonly heights: ServedHeights;
    readonly clock: Clock;
  }) {
    this.#pool = dependencies.pool;
    this.#check = dependencies.check;
    this.#heights = dependencies.heights;
    this.#clock = dependencies.clock;
  }

  /** A new store waits for the root of the live spork. */
  get wantsRoot(): boolean {
    return this.#wantsRoot;
  }

  /** Call it after every handshake, whatever its result. */
  notify(): void {
    this.#watchers.tell();
  }

  /**
   * Resolves once a configured access node is usable; waits while none answers. Also expected: OperatorError `foreign`
   * when all that answer are foreign.
   */
  async whenIdentified(signal: AbortSignal): Promise<void> {
    for (;;) {
      if (signal.aborted) throw abortReason(signal);
      const named = this.#pool.named();
      if (named.some(isUsable)) return;
      if (named.every(({ tried }) => tried)) this.#check.refuseForeign();
      await this.#changed(signal);
    }
  }

  /**
   * Resolves once every configured access node was asked to identify itself, with whatever result, and every claimed
   * spork is decided, at most a minute later: from then on everything that can be known is known of which heights the nodes
   * have.
   */
  async whenAllAsked(signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw abortReason(signal);
    while (!this.#pool.named().every(({ tried }) => tried)) await this.#changed(signal);
    await this.#changedUntil(() => !this.#pool.verifier.isUndecided(Infinity), SPORKS_WAIT_MS, signal);
  }

  /** Resolves once the spork of a height is known; when no configured node can name it any more; or after a minute. */
  async whenSporkTold(height: number, signal: AbortSignal): Promise<void> {
    const isDecided = (): boolean => this.#heights.sporkAt(height) !== undefined || this.#open().length === 0;
    await this.#changedUntil(isDecided, TROUBLED_ROOT_WAIT_MS, signal);
    const mayTell = (): boolean => this.#open().some(({ identity }) => identity?.rootTrouble === undefined);
    await this.#changedUntil(() => isDecided() || !mayTell(), ROOT_WAIT_MS - TROUBLED_ROOT_WAIT_MS, signal);
  }

  /**
   * Resolves once the root of the live spork is known, or no node can name it any more; or after a minute. Meanwhile the
   * members' troubles show what the nodes answer instead.
   */
  async whenRootTold(signal: AbortSignal): Promise<void> {
    const isDecided = (): boolean => this.#heights.liveRoot() !== undefined || this.#open().length === 0;
    this.#wantsRoot = true;
    try {
      await this.#changedUntil(isDecided, ROOT_WAIT_MS, signal);
    } finally {
      this.#wantsRoot = false;
    }
  }

  /** Nodes that may still name the root of their spork. */
  #open(): readonly PoolMember[] {
    return this.#pool.named().filter((member) => isUsable(member) && member.identity?.isRootOpen === true);
  }

  /** Resolves once the condition holds, or when the time is over. */
  async #changedUntil(condition: () => boolean, limitMs: number, signal: AbortSignal): Promise<void> {
    const limit = childOf(signal);
    const timer = this.#clock.setTimer(limitMs, () => limit.abort());
    try {
      while (!condition() && !limit.signal.aborted) await this.#changed(limit.signal);
    } catch (error) {
      if (signal.aborted || !limit.signal.aborted) throw error;
    } finally {
      timer.cancel();
      limit.abort();
    }
    if (signal.aborted) throw abortReason(signal);
  }

  #changed(signal: AbortSignal): Promise<void> {
    return unlessAborted(signal, (resolve) => this.#watchers.add(resolve));
  }
}
