import { setMaxListeners } from 'node:events';
import type { Logger } from '../../observability/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import { abortReason, backoffMs, OperatorError } from '../../runtime/index.js';
import { askIdentity, confirmsWatermark, foreignness } from './nodeIdentity.js';
import type { Expectation, Foreignness, NodeIdentity } from './nodeIdentity.js';
import type { NodeTrouble } from '../selection/NodeTroubles.js';
import { anchorOf, isUsable, tellHead } from './poolMember.js';
import type { PoolMember } from './poolMember.js';
import type { AccessMetrics } from '../transport/RpcClient.js';
import type { NodePool } from './NodePool.js';
import { UpstreamError } from '../UpstreamError.js';

/** A node that answers is asked again who it is after this long: it may have crossed a spork unnoticed. */
const IDENTIFY_EVERY_MS = 300_000;
/**
 * A node that answered is not asked again sooner, however many of its other calls fail meanwhile: each of those would
 * otherwise bring up to four calls more.
 */
const IDENTIFY_AT_MOST_EVERY_MS = 1_000;
/** Pauses between attempts to reach a node that does not answer. */
const RETRY = { minMs: 250, maxMs: 2_000 };
/** Deadline of each call; the longer one for a node that did not answer in time twice: it may be slow. */
const PATIENCE_MS = 3_000;
const LONG_PATIENCE_MS = 8_000;
const FAILURES_BEFORE_PATIENCE = 2;
/** How soon a foreign node is asked again: it may be of our chain after all. */
const FOREIGN_AGAIN_MS = 5_000;
/** Heads told longer ago say nothing about where the nodes stand. */
const HEAD_FRESH_MS = 10_000;
/** So far below the last stored block a head is no late answer any more. */
const HEAD_FAR_BELOW_HEIGHTS = 20;
/** Pauses before a node that has yet to tell where its spork begins is asked again, and how often: most never will. */
const ROOT_RETRY = { minMs: 500, maxMs: 10_000 };
const ROOT_ASKED_AGAIN = 10;
/** While a new store waits for it, it is asked for more often. */
const WANTED_ROOT_RETRY = { minMs: 500, maxMs: 2_000 };
/** How long a new store waits for its spork to be told by nodes that may yet tell it. */
const ROOT_WAIT_MS = 60_000;
/** As long as it is waited for nodes that fail when they are asked for it. */
const TROUBLED_ROOT_WAIT_MS = 4_500;
/** How long it is waited for the verdict on sporks that some nodes tell. */
const CLAIMS_WAIT_MS = 60_000;
/** A historic node that nobody wanted for this long is let go. */
const HISTORIC_IDLE_MS = 600_000;

/** Every access node that answers is of another chain than what is stored. */
export interface ChainReplaced {
  /** One or two sentences for the operator: what was found and what mends it. */
  readonly message: string;
  /** Monotonic milliseconds since when none of ours answers. */
  readonly sinceMs: number;
  readonly nodes: readonly string[];
}

/** The highest head that nodes of our chain tell, and the last block that is stored. */
export interface HeadBelow {
  readonly head: number;
  readonly watermark: number;
}

export interface NodeHandshakeDependencies {
  readonly pool: NodePool;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Pick<AccessMetrics, 'foreignNodes'>;
  readonly expectation: () => Expectation;
}

/**
 * Asks every node of the pool who it is: at first contact, after every outage, and every five minutes. It alone makes
 * a node usable or foreign.
 */
export class NodeHandshake {
  readonly #pool: NodePool;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #logger: Logger;
  readonly #metrics: Pick<AccessMetrics, 'foreignNodes'>;
  readonly #expectation: () => Expectation;
  readonly #watchers = new Set<() => void>();
  readonly #answeringListeners = new Set<() => void>();
  /** A new store waits for the root of the live spork. */
  #wantsRoot = false;
  /** Present while `run` runs. */
  #begin: ((member: PoolMember) => void) | undefined;

  constructor(dependencies: NodeHandshakeDependencies) {
    this.#pool = dependencies.pool;
    this.#clock = dependencies.clock;
    this.#random = dependencies.random;
    this.#logger = dependencies.logger;
    this.#metrics = dependencies.metrics;
    this.#expectation = dependencies.expectation;
  }

  /** Follows a member that came in while `run` runs. */
  follow(member: PoolMember): void {
    this.#begin?.(member);
  }

  /** Until the signal aborts; then it resolves. Rejects for bugs only. Called once. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#begin !== undefined) throw new Error('identification runs already');
    const failed = new AbortController();
    const stop = AbortSignal.any([signal, failed.signal]);
    // The calls of all nodes end with it: that there are many is no leak.
    setMaxListeners(0, stop);
    const following = new Set<Promise<void>>();
    this.#begin = (member) => {
      const task = this.#identifyForever(member, stop)
        .catch((error: unknown) => failed.abort(error))
        .finally(() => following.delete(task));
      following.add(task);
    };
    for (const member of this.#pool.members) this.#begin(member);
    await new Promise<void>((resolve) => {
      if (stop.aborted) resolve();
      else stop.addEventListener('abort', () => resolve(), { once: true });
    });
    await Promise.all(following);
    if (failed.signal.aborted) throw abortReason(failed.signal);
  }

  /**
   * Resolves once an access node that the operator named is usable; waits while none answers.
   * Expected errors: OperatorError `foreign` when all that answer are foreign; the signal's abort reason.
   */
  async whenIdentified(signal: AbortSignal): Promise<void> {
    for (;;) {
      if (signal.aborted) throw abortReason(signal);
      const named = this.#pool.named();
      if (named.some(isUsable)) return;
      if (named.every(({ tried }) => tried)) this.#refuseForeign(named);
      await this.#changed(signal);
    }
  }

  /**
   * Resolves once every access node that the operator named was asked who it is, whatever came of it, and it is decided which
   * of the sporks that they tell are believed, or a minute later: from then on it is known which heights the nodes have.
   * Expected errors: the signal's abort reason.
   */
  async whenAllAsked(signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw abortReason(signal);
    while (!this.#pool.named().every(({ tried }) => tried)) await this.#changed(signal);
    await this.#changedUntil(() => !this.#pool.claims.anyOpen, CLAIMS_WAIT_MS, signal);
  }

  /**
   * Resolves once it is known which spork a height belongs to; when no node that the operator named may yet tell it; or
   * after a minute. Expected errors: the signal's abort reason.
   */
  async whenSporkTold(height: number, signal: AbortSignal): Promise<void> {
    const open = (): readonly PoolMember[] =>
      this.#pool.named().filter((member) => isUsable(member) && member.identity?.isRootOpen === true);
    const isDecided = (): boolean => this.#pool.sporkAt(height) !== undefined || open().length === 0;
    await this.#changedUntil(isDecided, TROUBLED_ROOT_WAIT_MS, signal);
    const mayTell = (): boolean => open().some(({ identity }) => identity?.rootTrouble === undefined);
    await this.#changedUntil(() => isDecided() || !mayTell(), ROOT_WAIT_MS - TROUBLED_ROOT_WAIT_MS, signal);
  }

  /**
   * Resolves once the root of the live spork is told, or no node may yet tell it; or after a minute. Meanwhile `troubles` has
   * what the nodes say instead. Expected errors: the signal's abort reason.
   */
  async whenRootTold(signal: AbortSignal): Promise<void> {
    const mayTell = (): boolean =>
      this.#pool.named().some((member) => isUsable(member) && member.identity?.isRootOpen === true);
    this.#wantsRoot = true;
    try {
      await this.#changedUntil(() => this.#pool.liveRoot() !== undefined || !mayTell(), ROOT_WAIT_MS, signal);
    } finally {
      this.#wantsRoot = false;
    }
  }

  /** What the access nodes that the operator named do instead of saying who they are. */
  troubles(): readonly NodeTrouble[] {
    return this.#pool.named().flatMap(({ troubles }) => troubles.all());
  }

  /** Calls back when a node says who it is after it did not. Returns a function that ends it. */
  onAnswering(callback: () => void): () => void {
    this.#answeringListeners.add(callback);
    return () => void this.#answeringListeners.delete(callback);
  }

  /** Set while every named access node that answers is of another chain than what is stored. */
  chainReplaced(): ChainReplaced | undefined {
    const named = this.#pool.named();
    // What one of them said before it fell silent says nothing of what will be there when it is back.
    const foreign = named.filter(({ foreign: reason, outage }) => reason !== undefined && !outage);
    if (foreign.length === 0 || named.some(isUsable)) return undefined;
    return {
      message: this.#foreignMessage(foreign),
      sinceMs: Math.max(...foreign.map(({ foreignSinceMs }) => foreignSinceMs)),
      nodes: foreign.map(({ node }) => node.name),
    };
  }

  /** Set while every head that nodes of our chain told lately is far below the last block that is stored. */
  headBelow(): HeadBelow | undefined {
    const watermark = this.#expectation().watermark?.height;
    const sinceMs = this.#clock.monotonic() - HEAD_FRESH_MS;
    const told = this.#pool
      .named()
      .filter(isUsable)
      .flatMap(({ head }) => head ?? []);
    const heads = told.filter(({ atMs }) => atMs >= sinceMs).map(({ height }) => height);
    if (watermark === undefined || heads.length === 0) return undefined;
    const head = Math.max(...heads);
    return head <= watermark - HEAD_FAR_BELOW_HEIGHTS ? { head, watermark } : undefined;
  }

  /** Resolves once the condition holds, or after the time. Expected errors: the signal's abort reason. */
  async #changedUntil(condition: () => boolean, limitMs: number, signal: AbortSignal): Promise<void> {
    const limit = new AbortController();
    const timer = this.#clock.setTimer(limitMs, () => limit.abort());
    try {
      while (!condition() && !limit.signal.aborted) {
        await this.#changed(AbortSignal.any([signal, limit.signal]));
      }
    } catch (error) {
      if (signal.aborted || !limit.signal.aborted) throw error;
    } finally {
      timer.cancel();
    }
  }

  async #identifyForever(member: PoolMember, signal: AbortSignal): Promise<void> {
    let failures = 0;
    let opens = 0;
    for (;;) {
      const askedAtMs = this.#clock.monotonic();
      let isNews = false;
      member.askedAtMs = askedAtMs;
      try {
        const identity = await askIdentity(member.node, this.#expectation(), signal, {
          timeoutMs: failures < FAILURES_BEFORE_PATIENCE ? PATIENCE_MS : LONG_PATIENCE_MS,
          latest: this.#pool.claims.any,
          isForeign: member.foreign !== undefined,
          onAsked: (method) => member.troubles.asked(member.node.name, method),
          clock: this.#clock,
        });
        member.identity = identity;
        member.refusedBelow = 0;
        failures = 0;
        isNews = member.outage || !isUsable(member);
        this.#reached(member, identity);
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof UpstreamError)) throw error;
        this.#missed(member, error);
        failures += 1;
      }
      member.tried = true;
      this.#judge();
      this.#weighClaims(member);
      if (isNews && isUsable(member)) for (const notify of [...this.#answeringListeners]) notify();
      if (failures === 0) {
        opens = member.identity?.isRootOpen === true ? opens + 1 : 0;
        const isTroubled = member.identity?.rootTrouble !== undefined;
        const isAskedAgain = opens > 0 && (isTroubled || this.#wantsRoot || opens <= ROOT_ASKED_AGAIN);
        const retry = this.#wantsRoot ? WANTED_ROOT_RETRY : ROOT_RETRY;
        const usualMs = isUsable(member) ? IDENTIFY_EVERY_MS : FOREIGN_AGAIN_MS;
        const pauseMs = isAskedAgain ? backoffMs(retry, opens - 1, this.#random) : usualMs;
        const lookMs = this.#pool.claims.lookInMs(member) ?? IDENTIFY_EVERY_MS;
        await this.#pause(Math.min(pauseMs, lookMs), signal, member);
        await this.#pause(askedAtMs + IDENTIFY_AT_MOST_EVERY_MS - this.#clock.monotonic(), signal);
      } else {
        await this.#pause(backoffMs(RETRY, failures - 1, this.#random), signal, member);
      }
      if (signal.aborted) return;
      const unwantedMs = this.#clock.monotonic() - member.wantedAtMs;
      if (member.origin === 'historic' && unwantedMs > HISTORIC_IDLE_MS) {
        this.#pool.remove(member);
        return;
      }
    }
  }

  /**
   * That a node says who it is does not mend the other calls that it fails: its record is cleaned, and the log told, only
   * when it was this question that it did not answer before.
   */
  #reached(member: PoolMember, { head, lowestHeight, ...identity }: NodeIdentity): void {
    const clock = this.#clock;
    const before = member.beginning?.height === lowestHeight ? member.beginning : undefined;
    const { count, sinceMs } = before ?? { count: 0, sinceMs: clock.monotonic() };
    member.beginning = { height: lowestHeight, count: count + 1, sinceMs };
    const rootTrouble = identity.rootTrouble ?? (this.#wantsRoot ? identity.rootRefusal : undefined);
    member.outage = false;
    if (head !== undefined) tellHead(member, head, this.#clock.monotonic());
    if (rootTrouble === undefined) member.troubles.clear();
    else member.troubles.failed(rootTrouble);
    if (member.trouble === undefined) return;
    member.trouble = undefined;
    member.node.ledger.succeeded();
    this.#logger.info({ endpoint: member.node.name }, 'access node answers again');
  }

  #missed(member: PoolMember, error: UpstreamError): void {
    member.outage = true;
    member.troubles.failed(error);
    member.node.ledger.blame('failing', error.message);
    const announced = member.trouble !== undefined;
    member.trouble = error.message;
    if (announced) return;
    this.#logger.warn(
      { endpoint: member.node.name, kind: error.kind, reason: error.message },
      'access node does not answer',
    );
  }

  /** Where a node tells of a spork that the table does not have, those that should know are asked at once. */
  #weighClaims(member: PoolMember): void {
    const { toAsk, refuted } = this.#pool.claims.answered(member);
    for (const other of toAsk) other.wake?.();
    for (const { rootHeight, tellers } of refuted) {
      this.#logger.warn(
        { rootHeight, endpoints: tellers.map(({ node }) => node.name) },
        'access node tells of a spork that is not: others go on above its root',
      );
    }
    this.#settle();
  }

  /** Judges all nodes anew: what one says of our last block may bear on the others. */
  #judge(): void {
    const expectation = this.#expectation();
    const { members } = this.#pool;
    for (const member of members) {
      const { identity, node } = member;
      if (identity === undefined) continue;
      const confirmed = members.some(
        (other) =>
          other !== member &&
          isUsable(other) &&
          other.identity !== undefined &&
          confirmsWatermark(other.identity) &&
          !this.#mayBeDiscardedBy(identity, other),
      );
      const before = node.ledger.identity;
      const { hasSporks } = this.#pool;
      const foreign = foreignness(identity, expectation, { confirmed, hasSporks });
      // How far both chains agree is looked for once.
      const sharedHeight = foreign?.sharedHeight ?? member.foreign?.sharedHeight;
      member.foreign = foreign === undefined ? undefined : { ...foreign, sharedHeight };
      node.ledger.identity = foreign === undefined ? 'usable' : 'foreign';
      if (node.ledger.identity === before) continue;
      member.foreignSinceMs = this.#clock.monotonic();
      this.#announce(member);
    }
  }

  /** What a node has above the root of a later spork, that one may have discarded: unless there is no such spork. */
  #mayBeDiscardedBy({ sporkRootHeight }: NodeIdentity, other: PoolMember): boolean {
    const anchor = anchorOf(other);
    if (sporkRootHeight === undefined || anchor === undefined || anchor >= sporkRootHeight) return false;
    return this.#pool.claims.verdict(sporkRootHeight) !== 'refuted';
  }

  #settle(): void {
    this.#pool.refreshRanges();
    for (const notify of [...this.#watchers]) notify();
  }

  #announce({ node, identity, foreign }: PoolMember): void {
    if (foreign !== undefined) {
      const { reason, expected, found, height } = foreign;
      this.#metrics.foreignNodes.inc({ reason });
      // Chain ids are names; ids of sporks and blocks are for the debug log.
      const chains = reason === 'chain' ? { expected, found } : {};
      this.#logger.warn(
        { endpoint: node.name, reason, height, ...chains },
        'access node is foreign and left out',
      );
      this.#logger.debug({ endpoint: node.name, ...foreign }, 'what the foreign access node has');
      return;
    }
    this.#logger.info(
      { endpoint: node.name, semver: identity?.semver, lowestHeight: identity?.lowestHeight },
      'access node identified',
    );
  }

  #refuseForeign(named: readonly PoolMember[]): void {
    if (named.some(({ foreign }) => foreign !== undefined))
      throw new OperatorError('foreign', this.#foreignMessage(named));
  }

  #foreignMessage(named: readonly PoolMember[]): string {
    const { network, firstHeight } = this.#expectation();
    const found = named.flatMap(({ node, foreign }) =>
      foreign === undefined ? [] : [{ foreign, text: `${node.name} ${describe(foreign, network)}` }],
    );
    return `${found.map(({ text }) => text).join('; ')}. ${mendOf(
      found.map(({ foreign }) => foreign),
      firstHeight,
    )}`;
  }

  #changed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        this.#watchers.delete(settle);
        signal.removeEventListener('abort', settle);
        if (signal.aborted) reject(abortReason(signal));
        else resolve();
      };
      this.#watchers.add(settle);
      if (signal.aborted) settle();
      else signal.addEventListener('abort', settle, { once: true });
    });
  }

  /** Waits; less when the signal aborts or the member, if one is given, is woken. */
  #pause(pauseMs: number, signal: AbortSignal, member?: PoolMember): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted || pauseMs <= 0) {
        resolve();
        return;
      }
      const done = (): void => {
        timer.cancel();
        signal.removeEventListener('abort', done);
        if (member !== undefined) member.wake = undefined;
        resolve();
      };
      const timer = this.#clock.setTimer(pauseMs, done);
      signal.addEventListener('abort', done, { once: true });
      if (member !== undefined) member.wake = done;
    });
  }
}

function describe({ reason, expected, found, height = 0 }: Foreignness, network: string): string {
  switch (reason) {
    case 'chain':
      return `serves ${found}; --network ${network} expects ${expected}`;
    case 'spork':
      return `gives spork ${found} for root height ${height}, where this data directory has ${expected}`;
    case 'block':
      return `has block ${found} at height ${height}, where this data directory has ${expected}`;
  }
}

/** What to do about nodes all of which are foreign. */
function mendOf(found: readonly Foreignness[], firstHeight: number | undefined): string {
  if (found.some(({ reason }) => reason === 'chain'))
    return 'Name an --access-node of that network, or the --network that the node serves with a --data-dir of its own.';
  const other =
    'Name an --access-node of the stored chain; or, if the network began anew, start with another --data-dir';
  const blocks = found.filter(({ reason }) => reason === 'block');
  if (blocks.length < found.length) return `${other}.`;
  const shared = blocks.map(({ sharedHeight }) => sharedHeight ?? (firstHeight ?? 0) - 1);
  const target = Math.min(...shared);
  // Nothing of a store that begins at 0 can be kept.
  if (target < 0) return `${other}.`;
  return `${other}, or forget what the new chain does not have with "flow-collection-indexer rewind --to ${target} --yes".`;
}
