import type { Clock } from '../../runtime/index.js';
import { abortReason, childOf, Listeners } from '../../runtime/index.js';
import type { ChainCheck } from './ChainCheck.js';
import type { NodePool } from './NodePool.js';
import { isUsable } from './poolMember.js';
import type { PoolMember } from './poolMember.js';

/** How long a new store waits for its spork to be told by nodes that may yet tell it. */
const ROOT_WAIT_MS = 60_000;
/** How long to wait for nodes that fail to answer. */
const TROUBLED_ROOT_WAIT_MS = 4_500;
/** How long to wait for the verdict on sporks that only nodes claim. */
const SPORKS_WAIT_MS = 60_000;

export interface StartWaitsDependencies {
  readonly pool: NodePool;
  readonly check: ChainCheck;
  readonly clock: Clock;
}

/**
 * What a start waits for: that the nodes have said who they are. Expected errors of each wait: the signal's abort
 * reason.
 */
export class StartWaits {
  readonly #pool: NodePool;
  readonly #check: ChainCheck;
  readonly #clock: Clock;
  readonly #watchers = new Listeners();
  #wantsRoot = false;

  constructor(dependencies: StartWaitsDependencies) {
    this.#pool = dependencies.pool;
    this.#check = dependencies.check;
    this.#clock = dependencies.clock;
  }

  /** A new store waits for the root of the live spork. */
  get wantsRoot(): boolean {
    return this.#wantsRoot;
  }

  /** To be called whenever a node was asked who it is, whatever came of it. */
  notify(): void {
    this.#watchers.tell();
  }

  /**
   * Resolves once an access node that the operator named is usable; waits while none answers.
   * Expected errors besides: OperatorError `foreign` when all that answer are foreign.
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
   * Resolves once every access node that the operator named was asked who it is, whatever came of it, and it is
   * decided which sporks are followed, or a minute later: from then on it is known which heights the nodes have.
   */
  async whenAllAsked(signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw abortReason(signal);
    while (!this.#pool.named().every(({ tried }) => tried)) await this.#changed(signal);
    await this.#changedUntil(() => !this.#pool.verifier.isUndecided(Infinity), SPORKS_WAIT_MS, signal);
  }

  /**
   * Resolves once it is known which spork a height belongs to; when no node that the operator named may yet tell it; or
   * after a minute.
   */
  async whenSporkTold(height: number, signal: AbortSignal): Promise<void> {
    const isDecided = (): boolean => this.#pool.sporkAt(height) !== undefined || this.#open().length === 0;
    await this.#changedUntil(isDecided, TROUBLED_ROOT_WAIT_MS, signal);
    const mayTell = (): boolean => this.#open().some(({ identity }) => identity?.rootTrouble === undefined);
    await this.#changedUntil(() => isDecided() || !mayTell(), ROOT_WAIT_MS - TROUBLED_ROOT_WAIT_MS, signal);
  }

  /**
   * Resolves once the root of the live spork is told, or no node may yet tell it; or after a minute. Meanwhile the members'
   * troubles have what the nodes say instead.
   */
  async whenRootTold(signal: AbortSignal): Promise<void> {
    const isDecided = (): boolean => this.#pool.liveRoot() !== undefined || this.#open().length === 0;
    this.#wantsRoot = true;
    try {
      await this.#changedUntil(isDecided, ROOT_WAIT_MS, signal);
    } finally {
      this.#wantsRoot = false;
    }
  }

  /** Nodes that may yet tell where their spork begins. */
  #open(): readonly PoolMember[] {
    return this.#pool.named().filter((member) => isUsable(member) && member.identity?.isRootOpen === true);
  }

  /** Resolves once the condition holds, or after the time. */
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
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        leave();
        signal.removeEventListener('abort', settle);
        if (signal.aborted) reject(abortReason(signal));
        else resolve();
      };
      const leave = this.#watchers.add(settle);
      if (signal.aborted) settle();
      else signal.addEventListener('abort', settle, { once: true });
    });
  }
}
