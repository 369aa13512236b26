import { setMaxListeners } from 'node:events';
import { backoffMs, Listeners, OperatorError } from '../../runtime/index.js';
import { runTogether, sleep, unlessAborted } from '../../runtime/index.js';
import { UpstreamError } from '../UpstreamError.js';
import { askIdentity } from './identity/askIdentity.js';
import { foreignMessage, foreignness, type NodeIdentity } from './identity/nodeIdentity.js';
import { NodePool } from './NodePool.js';
import { anchorOf, identify, isChainSource, isUsable, nameOf, noteHead } from './PoolMember.js';
import type { PoolMember } from './PoolMember.js';

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
/** Pauses and attempts for a node that left a question open, such as the root of its spork: most never answer it. */
const ROOT_RETRY = { minMs: 500, maxMs: 10_000 };
const ROOT_ASKED_AGAIN = 10;
/** The pauses while a new store waits for the root. */
const WANTED_ROOT_RETRY = { minMs: 500, maxMs: 2_000 };
/** A historic node that was not wanted for this long is dropped. */
const HISTORIC_IDLE_MS = 600_000;

/** How long a new store waits for nodes to name their spork. */
const ROOT_WAIT_MS = 60_000;
/** How long to wait for nodes that fail to answer. */
const TROUBLED_ROOT_WAIT_MS = 4_500;
/** How long to wait for the verdict on sporks that only nodes claim. */
const SPORKS_WAIT_MS = 60_000;

/** Heads older than this say nothing about the present. */
const HEAD_FRESH_MS = 10_000;
/** A head this far below the last stored block is not just a late answer. */
const HEAD_FAR_BELOW_HEIGHTS = 20;

/**
 * All nodes that may be asked: the configured ones and, behind them, the historic nodes of the spork table. Identifies
 * each at first contact, after every outage, and every five minutes. Compares their answers with our chain: nothing else
 * makes a node usable or foreign.
 */
export class AccessNetwork extends NodePool {
  readonly #answeringListeners = new Listeners();
  readonly #foreignListeners = new Listeners<string>();
  /** Notified after every handshake, whatever its result. */
  readonly #watchers = new Listeners();
  /** What a new store waits for: the root of the live spork, which is asked for more often, or the spork of its first height. */
  #wanted: 'root' | number | undefined;

  /** Identifies the nodes until the signal aborts; then it resolves. Rejects for bugs only. Called once. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.onMember !== undefined) throw new Error('the handshakes are already running');
    const loopOf = (member: PoolMember) => (ended: AbortSignal) => this.#identifyForever(member, ended);
    await runTogether(signal, this.members.map(loopOf), (begin) => {
      this.onMember = (member) => begin(loopOf(member));
    });
  }

  /** Calls back when a node that did not answer, or was foreign, becomes usable. Returns a function that unsubscribes. */
  onAnswering(callback: () => void): () => void {
    return this.#answeringListeners.add(callback);
  }

  /** Calls back when a node, named, is found to be of another chain. */
  onForeign(callback: (node: string) => void): () => void {
    return this.#foreignListeners.add(callback);
  }

  /**
   * Resolves once a configured access node is usable; `run` must be under way. Waits while none answers. Expected errors:
   * OperatorError `foreign` when all that answer are foreign; as of all these waits, the signal's abort reason.
   */
  async whenIdentified(signal: AbortSignal): Promise<void> {
    const foreign = (): string | undefined => (this.#areAllTried() ? this.chainReplaced() : undefined);
    await this.#until(() => this.named().some(isUsable) || foreign() !== undefined, signal);
    const message = foreign();
    if (message !== undefined) throw new OperatorError('foreign', message);
  }

  /**
   * Resolves once every configured access node was asked to identify itself, with whatever result, and every claimed
   * spork is decided, at most a minute later: from then on the nodes' heights are known as far as they can be.
   */
  async whenAllAsked(signal: AbortSignal): Promise<void> {
    await this.#until(() => this.#areAllTried(), signal);
    await this.#until(() => this.verifier.undecidedAt(Infinity) === undefined, signal, SPORKS_WAIT_MS);
  }

  /**
   * Resolves once the root of the live spork is known, or the spork of a height; once no configured node can still name
   * it; or after a minute, for a height sooner if the nodes left all fail to answer. The root, without which nothing can
   * start, is awaited as long as one of them is away. Meanwhile the members' troubles show what they answer instead.
   */
  async whenSporkKnown(wanted: 'root' | number, signal: AbortSignal): Promise<void> {
    const isKnown = (): boolean => (wanted === 'root' ? this.liveRoot() : this.sporkAt(wanted)) !== undefined;
    const isDecided = (): boolean => isKnown() || this.#open().length === 0;
    const isHopeless = (): boolean =>
      wanted !== 'root' && this.#open().every(({ identity }) => identity?.openRoot?.isFailing);
    const isAway = ({ outage, identity }: PoolMember): boolean =>
      outage || ['deadline', 'unavailable'].some((kind) => identity?.openRoot?.why.kind === kind);
    this.#wanted = wanted;
    try {
      await this.#until(isDecided, signal, TROUBLED_ROOT_WAIT_MS);
      await this.#until(() => isDecided() || isHopeless(), signal, ROOT_WAIT_MS - TROUBLED_ROOT_WAIT_MS);
      await this.#until(() => isDecided() || wanted !== 'root' || !this.#open().some(isAway), signal);
    } finally {
      this.#wanted = undefined;
    }
  }

  /**
   * While every configured access node that answers serves another chain than the stored one: one or two sentences for the
   * operator, what was found and what to do.
   */
  chainReplaced(): string | undefined {
    const named = this.named();
    // The last answer of a silent node says nothing about what it will serve when it is back.
    const alive = named.filter(({ outage }) => !outage);
    const foreign = alive.flatMap(({ foreign: why, node: { name } }) => (why ? { name, foreign: why } : []));
    if (foreign.length === 0 || named.some(isUsable)) return undefined;
    return foreignMessage(foreign, this.dependencies.expectation(), this.source);
  }

  /**
   * The highest head, while every one that nodes of our chain reported recently is far below the last stored block, or below a
   * head that was reported before.
   */
  headBelow(reported = -1): { readonly head: number; readonly reached: number } | undefined {
    const reached = Math.max(this.dependencies.expectation().watermark?.height ?? -1, reported);
    const heads = this.#recentHeads().map(({ height }) => height);
    const head = Math.max(...heads);
    return heads.length > 0 && head <= reached - HEAD_FAR_BELOW_HEIGHTS ? { head, reached } : undefined;
  }

  /** The only node that recently reported a head above this height, while other nodes reported theirs. */
  soleReporter(height: number): string | undefined {
    const heads = this.#recentHeads();
    const [first, ...more] = heads.filter((head) => head.height > height);
    return more.length === 0 && heads.length > 1 ? first?.name : undefined;
  }

  #recentHeads() {
    const sinceMs = this.dependencies.clock.monotonic() - HEAD_FRESH_MS;
    const fresh = this.named().filter((member) => isUsable(member) && (member.head?.atMs ?? 0) >= sinceMs);
    return fresh.flatMap(({ head, node: { name } }) => (head === undefined ? [] : { name, ...head }));
  }

  /** Nodes that may still name the root of their spork. */
  #open(): readonly PoolMember[] {
    return this.named().filter((member) => isUsable(member) && member.identity?.openRoot !== undefined);
  }

  #areAllTried(): boolean {
    return this.named().every(({ tried }) => tried);
  }

  /** Resolves once the condition holds, which is checked after every handshake, or when the time is up. */
  #until(condition: () => boolean, signal: AbortSignal, limitMs = Infinity): Promise<void> {
    return unlessAborted(signal, (resolve) => {
      const look = (): void => {
        if (condition()) resolve();
      };
      const leave = this.#watchers.add(look);
      const timer = limitMs === Infinity ? undefined : this.dependencies.clock.setTimer(limitMs, resolve);
      look();
      return () => {
        leave();
        timer?.cancel();
      };
    });
  }

  async #identifyForever(member: PoolMember, signal: AbortSignal): Promise<void> {
    // The calls to all nodes listen to this signal: many listeners are not a leak.
    setMaxListeners(0, signal);
    let hurriedAtMs = -Infinity;
    for (;;) {
      await this.#ask(member, signal);
      await member.pause.sleep(this.#pauseMs(member), signal);
      // A call that failed meanwhile may have ended the pause early.
      const tooSoonMs = hurriedAtMs + IDENTIFY_AT_MOST_EVERY_MS - this.dependencies.clock.monotonic();
      if (member.failures === 0 && tooSoonMs > 0) await sleep(this.dependencies.clock, tooSoonMs, signal);
      if (member.outage) hurriedAtMs = this.dependencies.clock.monotonic();
      const unwantedMs = this.dependencies.clock.monotonic() - member.wantedAtMs;
      if (member.origin === 'historic' && unwantedMs > HISTORIC_IDLE_MS) {
        this.remove(member);
        return;
      }
    }
  }

  /** One handshake, and its consequences for all nodes. */
  async #ask(member: PoolMember, signal: AbortSignal): Promise<void> {
    const { expectation } = this.dependencies;
    let isNews = false;
    member.askedAtMs = this.dependencies.clock.monotonic();
    try {
      const identity = await askIdentity(member.node, expectation(), signal, {
        timeoutMs: member.failures < FAILURES_BEFORE_PATIENCE ? PATIENCE_MS : LONG_PATIENCE_MS,
        isForeign: member.foreign !== undefined,
        isIndexer: member.roles.peer,
        clock: this.dependencies.clock,
      });
      identify(member, identity);
      member.opens = identity.openRoot || identity.isVague ? member.opens + 1 : 0;
      isNews = member.outage || !isUsable(member);
      this.#reached(member, identity);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof UpstreamError)) throw error;
      this.#missed(member, error);
    }
    member.tried = true;
    this.#judge();
    this.#verifySporks();
    if (isNews && isUsable(member)) this.#answeringListeners.tell();
  }

  #pauseMs(member: PoolMember): number {
    const { random } = this.dependencies;
    const { failures, opens } = member;
    if (failures > 0) return backoffMs(RETRY, failures - 1, random);
    // A mirrored indexer continues over the same connection when a spork ends.
    const isMirrored = member.roles.access && member.roles.peer;
    const isWitness = isMirrored || this.verifier.isWitness(member);
    const usualMs = !isUsable(member) ? FOREIGN_AGAIN_MS : isWitness ? WITNESS_EVERY_MS : IDENTIFY_EVERY_MS;
    const isFailing = member.identity?.openRoot?.isFailing;
    const isWanted = this.#wanted === 'root';
    if (opens === 0 || !(isFailing || isWanted || opens <= ROOT_ASKED_AGAIN)) return usualMs;
    return backoffMs(isWanted ? WANTED_ROOT_RETRY : ROOT_RETRY, opens - 1, random);
  }

  /** A successful handshake clears only handshake failures; the node's other calls may go on failing. */
  #reached(member: PoolMember, { head, lowestHeight, openRoot }: NodeIdentity): void {
    const { logger } = this.dependencies;
    const nowMs = this.dependencies.clock.monotonic();
    const before = member.beginning?.height === lowestHeight ? member.beginning : undefined;
    const { count, sinceMs } = before ?? { count: 0, sinceMs: nowMs };
    member.beginning = { height: lowestHeight, count: count + 1, sinceMs };
    member.outage = false;
    if (head !== undefined) noteHead(member, head, nowMs);
    const isTold = openRoot?.isFailing || this.#wanted !== undefined;
    if (openRoot !== undefined && isTold) member.troubles.failed(openRoot.why, true);
    else member.troubles.clear();
    if (member.failures === 0) return;
    member.failures = 0;
    member.node.healthRecord.succeeded();
    logger.info({ endpoint: member.node.name }, `${nameOf(member)} answers again`);
  }

  #missed(member: PoolMember, error: UpstreamError): void {
    const { name, healthRecord } = member.node;
    member.outage = true;
    member.troubles.failed(error, true);
    healthRecord.report('failing', error.message);
    member.failures += 1;
    if (member.failures > 1) return;
    const { kind, message: reason } = error;
    const isSilent = kind === 'unavailable' || kind === 'deadline';
    const otherwise = kind === 'unauthenticated' ? 'refuses us' : 'does not identify itself';
    const what = `${nameOf(member)} ${isSilent ? 'does not answer' : otherwise}`;
    this.dependencies.logger.warn({ endpoint: name, kind, reason }, what);
  }

  /** When a node claims an unknown spork, immediately asks the nodes that should know it. */
  #verifySporks(): void {
    const { logger } = this.dependencies;
    const { members, verifier } = this;
    const { isNews, contradicted } = verifier.update();
    if (isNews) for (const member of members) if (verifier.isWitness(member)) member.pause.wake();
    for (const { rootHeight, reporters } of contradicted) {
      logger.warn(
        { rootHeight, endpoints: reporters, fix: `if it is one: --access-spork-root ${rootHeight}` },
        'access node claims a spork that does not exist: others continue above its root',
      );
    }
    this.refreshRanges();
    this.#watchers.tell();
  }

  /** Judges all nodes again: what one reports of our last block may matter for the others. */
  #judge(): void {
    const expected = this.dependencies.expectation();
    const { hasSporks, members, verifier } = this;
    const named = members.flatMap(({ identity }) => identity?.sporkRootHeight ?? []);
    // The spork of a checkpoint may have discarded what a node of an earlier one has there.
    const begun = expected.watermark === undefined ? [...verifier.known, ...named] : [];
    const sporks = [...expected.sporks, ...begun.map((rootHeight) => ({ rootHeight, sporkId: '' }))];
    const expectation = { ...expected, sporks };
    for (const member of members) {
      const { identity, node } = member;
      if (identity === undefined) continue;
      const confirmed = members.some(
        (other) =>
          other !== member &&
          isChainSource(other) &&
          isUsable(other) &&
          // It has our last block, and is a witness against nodes that have another one.
          other.identity?.comparison?.isWatermark === true &&
          other.identity.comparison.ours === other.identity.comparison.theirs &&
          !this.#mayBeDiscardedBy(identity, other),
      );
      const before = node.healthRecord.identity;
      const foreign = foreignness(identity, expectation, { confirmed, hasSporks });
      // The highest common height is searched once.
      const sharedHeight = foreign?.sharedHeight ?? member.foreign?.sharedHeight;
      member.foreign = foreign === undefined ? undefined : { ...foreign, sharedHeight };
      node.healthRecord.identity = foreign === undefined ? 'usable' : 'foreign';
      if (node.healthRecord.identity === before) continue;
      this.#announce(member);
    }
  }

  /** A later spork, if it exists, may have discarded the blocks that a node has above its root. */
  #mayBeDiscardedBy({ sporkRootHeight }: NodeIdentity, other: PoolMember): boolean {
    const anchor = anchorOf(other);
    if (sporkRootHeight === undefined || anchor === undefined || anchor >= sporkRootHeight) return false;
    return this.verifier.verdict(sporkRootHeight) !== 'contradicted';
  }

  #announce(member: PoolMember): void {
    const { node, identity, foreign } = member;
    const name = nameOf(member);
    if (foreign === undefined) {
      const reported = { semver: identity?.semver, lowestHeight: identity?.lowestHeight };
      this.dependencies.logger.info({ endpoint: node.name, ...reported }, `${name} identified`);
      return;
    }
    this.#foreignListeners.tell(node.name);
    const { reason, expected, found, height } = foreign;
    this.dependencies.metrics.foreignNodes.inc({ reason });
    // Chain ids are names; ids of sporks and blocks are for the debug log.
    const chains = reason === 'chain' ? { expected, found } : {};
    const fields = { endpoint: node.name, reason, height, ...chains };
    this.dependencies.logger.warn(fields, `${name} is foreign and left out`);
    this.dependencies.logger.debug({ endpoint: node.name, ...foreign }, `ids of the foreign ${name}`);
  }
}
