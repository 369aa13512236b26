import { setMaxListeners } from 'node:events';
import type { Logger } from '../../../observability/index.js';
import type { Clock, Random } from '../../../runtime/index.js';
import {
  abortReason,
  backoffMs,
  childOf,
  Listeners,
  sleep,
  unlessAborted,
  wasAborted,
  whenAborted,
} from '../../../runtime/index.js';
import { UpstreamError } from '../../UpstreamError.js';
import { askIdentity } from '../identity/askIdentity.js';
import type { ChainCheck } from './ChainCheck.js';
import type { Expectation, NodeIdentity } from '../identity/nodeIdentity.js';
import type { NodePool } from '../NodePool.js';
import { isUsable, nameOf, noteHead } from '../PoolMember.js';
import type { PoolMember } from '../PoolMember.js';

/** A node that answers repeats its handshake after this long: it may have crossed a spork unnoticed. */
const IDENTIFY_EVERY_MS = 300_000;
/**
 * A node that loses its connection is asked at once, since another node may answer at its address; after that at most
 * this often, however many of its calls fail: otherwise each failure would cause up to four more calls.
 */
const IDENTIFY_AT_MOST_EVERY_MS = 1_000;
/** Pauses between attempts to reach a node that does not answer. */
const RETRY = { minMs: 250, maxMs: 2_000 };
/** Deadline of each call; the longer one after two timeouts, in case the node is slow. */
const PATIENCE_MS = 3_000;
const LONG_PATIENCE_MS = 8_000;
const FAILURES_BEFORE_PATIENCE = 2;
/** Pause before asking a foreign node again: it may be moved to our chain. */
const FOREIGN_AGAIN_MS = 5_000;
/** How often to ask a node whose head may change the verdict on a spork, and one that may enter the next unnoticed. */
const WITNESS_EVERY_MS = 10_000;
/** Pauses and number of attempts for a node that has not named the root of its spork: most never will. */
const ROOT_RETRY = { minMs: 500, maxMs: 10_000 };
const ROOT_ASKED_AGAIN = 10;
/** The pauses while a new store waits for the root. */
const WANTED_ROOT_RETRY = { minMs: 500, maxMs: 2_000 };
/** A historic node that nobody wanted for this long is dropped. */
const HISTORIC_IDLE_MS = 600_000;

/** How long a new store waits for nodes to name their spork. */
const ROOT_WAIT_MS = 60_000;
/** How long to wait for nodes that fail to answer. */
const TROUBLED_ROOT_WAIT_MS = 4_500;
/** How long to wait for the verdict on sporks that only nodes claim. */
const SPORKS_WAIT_MS = 60_000;

interface Dependencies {
  readonly pool: NodePool;
  readonly check: ChainCheck;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly expectation: () => Expectation;
}

/** Consecutive handshakes without a result. */
interface Unanswered {
  /** The node did not answer. */
  failures: number;
  /** The node did not name the root of its spork. */
  opens: number;
}

/** The waits of a start for the handshakes, which must be running. Expected errors of each: the signal's abort reason. */
export type StartWaits = Pick<
  NodeHandshake,
  'whenIdentified' | 'whenAllAsked' | 'whenSporkTold' | 'whenRootTold'
>;

/** Identifies every node of the pool: at first contact, after every outage, and every five minutes. */
export class NodeHandshake {
  readonly #dependencies: Dependencies;
  readonly #pool: NodePool;
  readonly #clock: Clock;
  readonly #answeringListeners = new Listeners();
  /** Told after every handshake, whatever its result. */
  readonly #watchers = new Listeners();
  /** What a new store waits for: the root of the live spork, which is asked for more often, or the spork of its first height. */
  #wanted: 'root' | 'spork' | undefined;

  constructor(dependencies: Dependencies) {
    this.#dependencies = dependencies;
    this.#pool = dependencies.pool;
    this.#clock = dependencies.clock;
  }

  /** Runs until the signal aborts; then it resolves. Rejects for bugs only. Called once. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#pool.onMember !== undefined) throw new Error('the handshakes are already running');
    const scope = childOf(signal);
    // The calls to all nodes listen to this signal: many listeners are not a leak.
    setMaxListeners(0, scope.signal);
    const failures: unknown[] = [];
    const following = new Set<Promise<void>>();
    const begin = (member: PoolMember): void => {
      const task = this.#identifyForever(member, scope.signal)
        .catch((error: unknown) => {
          if (!wasAborted(error, scope.signal)) failures.push(error);
          scope.abort();
        })
        .finally(() => following.delete(task));
      following.add(task);
    };
    this.#pool.onMember = begin;
    for (const member of this.#pool.members) begin(member);
    await whenAborted(scope.signal);
    await Promise.all(following);
    if (failures.length > 0) throw failures[0];
  }

  /** Calls back when a node answers the handshake again. Returns a function that unsubscribes. */
  onAnswering(callback: () => void): () => void {
    return this.#answeringListeners.add(callback);
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
      if (named.every(({ tried }) => tried)) this.#dependencies.check.refuseForeign();
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
    const isDecided = (): boolean => this.#pool.sporkAt(height) !== undefined || this.#open().length === 0;
    const mayTell = (): boolean => this.#open().some(({ identity }) => identity?.rootTrouble === undefined);
    await this.#whileWanted('spork', async () => {
      await this.#changedUntil(isDecided, TROUBLED_ROOT_WAIT_MS, signal);
      await this.#changedUntil(() => isDecided() || !mayTell(), ROOT_WAIT_MS - TROUBLED_ROOT_WAIT_MS, signal);
    });
  }

  /** Resolves once the root of the live spork is known, or no node can name it any more; or after a minute. */
  async whenRootTold(signal: AbortSignal): Promise<void> {
    const isDecided = (): boolean => this.#pool.liveRoot() !== undefined || this.#open().length === 0;
    await this.#whileWanted('root', () => this.#changedUntil(isDecided, ROOT_WAIT_MS, signal));
  }

  /** Meanwhile the members' troubles show what they answer in place of the root. */
  async #whileWanted(wanted: 'root' | 'spork', wait: () => Promise<void>): Promise<void> {
    this.#wanted = wanted;
    try {
      await wait();
    } finally {
      this.#wanted = undefined;
    }
  }

  /** Nodes that may still name the root of their spork. */
  #open(): readonly PoolMember[] {
    return this.#pool.named().filter((member) => isUsable(member) && member.identity?.isRootOpen === true);
  }

  /** Resolves once the condition holds, or when the time is over. */
  async #changedUntil(condition: () => boolean, limitMs: number, signal: AbortSignal): Promise<void> {
    const endsAtMs = this.#clock.monotonic() + limitMs;
    while (!condition()) {
      const leftMs = endsAtMs - this.#clock.monotonic();
      if (leftMs <= 0) break;
      await this.#changed(signal, leftMs);
    }
    if (signal.aborted) throw abortReason(signal);
  }

  /** Resolves after the next handshake, or when the time is over. */
  #changed(signal: AbortSignal, limitMs?: number): Promise<void> {
    return unlessAborted(signal, (resolve) => {
      const leave = this.#watchers.add(resolve);
      const timer = limitMs === undefined ? undefined : this.#clock.setTimer(limitMs, resolve);
      return () => {
        leave();
        timer?.cancel();
      };
    });
  }

  async #identifyForever(member: PoolMember, signal: AbortSignal): Promise<void> {
    const attempts: Unanswered = { failures: 0, opens: 0 };
    let hurriedAtMs = -Infinity;
    for (;;) {
      await this.#ask(member, attempts, signal);
      await member.pause.sleep(this.#pauseMs(member, attempts), signal);
      // A call that failed meanwhile may have ended the pause early.
      const tooSoonMs = hurriedAtMs + IDENTIFY_AT_MOST_EVERY_MS - this.#clock.monotonic();
      if (attempts.failures === 0 && tooSoonMs > 0) await sleep(this.#clock, tooSoonMs, signal);
      if (member.outage) hurriedAtMs = this.#clock.monotonic();
      const unwantedMs = this.#clock.monotonic() - member.wantedAtMs;
      if (member.origin === 'historic' && unwantedMs > HISTORIC_IDLE_MS) {
        this.#pool.remove(member);
        return;
      }
    }
  }

  /** One handshake, and its consequences for all nodes. */
  async #ask(member: PoolMember, attempts: Unanswered, signal: AbortSignal): Promise<void> {
    const { check, expectation } = this.#dependencies;
    let isNews = false;
    member.askedAtMs = this.#clock.monotonic();
    try {
      const identity = await askIdentity(member.node, expectation(), signal, {
        timeoutMs: attempts.failures < FAILURES_BEFORE_PATIENCE ? PATIENCE_MS : LONG_PATIENCE_MS,
        isForeign: member.foreign !== undefined,
        isIndexer: member.roles.peer,
        onAsked: (method) => member.troubles.asked(member.node.name, method),
        clock: this.#clock,
      });
      member.identity = identity;
      member.refusedBelow = 0;
      attempts.failures = 0;
      attempts.opens = identity.isRootOpen ? attempts.opens + 1 : 0;
      isNews = member.outage || !isUsable(member);
      this.#reached(member, identity);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof UpstreamError)) throw error;
      attempts.failures += 1;
      this.#missed(member, error);
    }
    member.tried = true;
    check.judge();
    this.#verifySporks();
    if (isNews && isUsable(member)) this.#answeringListeners.tell();
  }

  #pauseMs(member: PoolMember, { failures, opens }: Unanswered): number {
    const { random } = this.#dependencies;
    if (failures > 0) return backoffMs(RETRY, failures - 1, random);
    // What a mirror mirrors goes on over the same connection when a spork ends.
    const isMirrored = member.roles.access && member.roles.peer;
    const isWitness = isMirrored || this.#pool.verifier.isWitness(member);
    const usualMs = !isUsable(member) ? FOREIGN_AGAIN_MS : isWitness ? WITNESS_EVERY_MS : IDENTIFY_EVERY_MS;
    const isTroubled = member.identity?.rootTrouble !== undefined;
    const isWanted = this.#wanted === 'root';
    if (opens === 0 || !(isTroubled || isWanted || opens <= ROOT_ASKED_AGAIN)) return usualMs;
    return backoffMs(isWanted ? WANTED_ROOT_RETRY : ROOT_RETRY, opens - 1, random);
  }

  /** A successful handshake clears only handshake failures; the node's other calls may go on failing. */
  #reached(member: PoolMember, { head, lowestHeight, ...identity }: NodeIdentity): void {
    const { logger } = this.#dependencies;
    const nowMs = this.#clock.monotonic();
    const before = member.beginning?.height === lowestHeight ? member.beginning : undefined;
    const { count, sinceMs } = before ?? { count: 0, sinceMs: nowMs };
    member.beginning = { height: lowestHeight, count: count + 1, sinceMs };
    const rootTrouble =
      identity.rootTrouble ?? (this.#wanted === undefined ? undefined : identity.rootRefusal);
    member.outage = false;
    if (head !== undefined) noteHead(member, head, nowMs);
    if (rootTrouble === undefined) member.troubles.clear();
    else member.troubles.failed(rootTrouble);
    if (member.trouble === undefined) return;
    member.trouble = undefined;
    member.node.healthRecord.succeeded();
    logger.info({ endpoint: member.node.name }, `${nameOf(member)} answers again`);
  }

  #missed(member: PoolMember, error: UpstreamError): void {
    const { name, healthRecord } = member.node;
    member.outage = true;
    member.troubles.failed(error);
    healthRecord.report('failing', error.message);
    const isAnnounced = member.trouble !== undefined;
    member.trouble = error.message;
    if (isAnnounced) return;
    this.#dependencies.logger.warn(
      { endpoint: name, kind: error.kind, reason: error.message },
      `${nameOf(member)} ${error.kind === 'unauthenticated' ? 'refuses us' : 'does not answer'}`,
    );
  }

  /** When a node claims an unknown spork, asks the nodes that should know it at once. */
  #verifySporks(): void {
    const { logger } = this.#dependencies;
    const { members, verifier } = this.#pool;
    const { isNews, contradicted } = verifier.update();
    if (isNews) for (const member of members) if (verifier.isWitness(member)) member.pause.wake();
    for (const { rootHeight, tellers } of contradicted) {
      logger.warn(
        { rootHeight, endpoints: tellers, fix: `if it is one: --access-spork-root ${rootHeight}` },
        'access node claims a spork that does not exist: others continue above its root',
      );
    }
    this.#pool.refreshRanges();
    this.#watchers.tell();
  }
}
