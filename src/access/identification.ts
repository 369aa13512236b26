import type { Logger } from '../observability/index.js';
import type { Clock, Random } from '../runtime/index.js';
import { abortReason, backoffMs, OperatorError } from '../runtime/index.js';
import { askIdentity, confirmsWatermark, foreignness } from './identity.js';
import type { Expectation, Foreignness, NodeIdentity } from './identity.js';
import { anchorOf, isUsable } from './member.js';
import type { Member } from './member.js';
import type { AccessMetrics } from './caller.js';
import type { NodePool } from './pool.js';
import { UpstreamError } from './types.js';

/** A node that answers is asked again who it is after this long: it may have crossed a spork unnoticed. */
const IDENTIFY_EVERY_MS = 300_000;
/**
 * A node that answered is not asked again sooner, however many of its other calls fail meanwhile: each of those would
 * otherwise bring up to four calls more.
 */
const IDENTIFY_AT_MOST_EVERY_MS = 1_000;
/** Pauses between attempts to reach a node that does not answer. */
const RETRY = { minMs: 250, maxMs: 10_000 };
/** Pauses before a node that has yet to tell where its spork begins is asked again, and how often: most never will. */
const ROOT_RETRY = { minMs: 500, maxMs: 10_000 };
const ROOT_ASKED_AGAIN = 10;
/** How long a new store waits for its spork to be told by nodes that may yet tell it. */
const ROOT_WAIT_MS = 60_000;
/** How long it is waited for the verdict on sporks that some nodes tell. */
const CLAIMS_WAIT_MS = 60_000;
/** A historic node that nobody wanted for this long is let go. */
const HISTORIC_IDLE_MS = 600_000;

export interface IdentificationDependencies {
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
export class Identification {
  private readonly pool: NodePool;
  private readonly clock: Clock;
  private readonly random: Random;
  private readonly logger: Logger;
  private readonly metrics: Pick<AccessMetrics, 'foreignNodes'>;
  private readonly expectation: () => Expectation;
  private readonly watchers = new Set<() => void>();
  /** Present while `run` runs. */
  private begin: ((member: Member) => void) | undefined;

  constructor(dependencies: IdentificationDependencies) {
    this.pool = dependencies.pool;
    this.clock = dependencies.clock;
    this.random = dependencies.random;
    this.logger = dependencies.logger;
    this.metrics = dependencies.metrics;
    this.expectation = dependencies.expectation;
  }

  /** Follows a member that came in while `run` runs. */
  follow(member: Member): void {
    this.begin?.(member);
  }

  /** Until the signal aborts; then it resolves. Rejects for bugs only. Called once. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.begin !== undefined) throw new Error('identification runs already');
    const failed = new AbortController();
    const stop = AbortSignal.any([signal, failed.signal]);
    const following = new Set<Promise<void>>();
    this.begin = (member) => {
      const task = this.identifyForever(member, stop)
        .catch((error: unknown) => failed.abort(error))
        .finally(() => following.delete(task));
      following.add(task);
    };
    for (const member of this.pool.members) this.begin(member);
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
      const named = this.pool.named();
      if (named.some(isUsable)) return;
      if (named.every(({ tried }) => tried)) this.refuseForeign(named);
      await this.changed(signal);
    }
  }

  /**
   * Resolves once every access node that the operator named was asked who it is, whatever came of it, and it is decided which
   * of the sporks that they tell are believed, or a minute later: from then on it is known which heights the nodes have.
   * Expected errors: the signal's abort reason.
   */
  async whenAllAsked(signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw abortReason(signal);
    while (!this.pool.named().every(({ tried }) => tried)) await this.changed(signal);
    await this.changedUntil(() => !this.pool.claims.anyOpen, CLAIMS_WAIT_MS, signal);
  }

  /**
   * Resolves once it is known which spork a height belongs to; when no node that the operator named may yet tell it; or
   * after a minute. Expected errors: the signal's abort reason.
   */
  async whenSporkTold(height: number, signal: AbortSignal): Promise<void> {
    const isDecided = (): boolean =>
      this.pool.sporkAt(height) !== undefined ||
      !this.pool.named().some((member) => isUsable(member) && member.identity?.isRootOpen === true);
    await this.changedUntil(isDecided, ROOT_WAIT_MS, signal);
  }

  /** Resolves once the condition holds, or after the time. Expected errors: the signal's abort reason. */
  private async changedUntil(condition: () => boolean, limitMs: number, signal: AbortSignal): Promise<void> {
    const limit = new AbortController();
    const timer = this.clock.setTimer(limitMs, () => limit.abort());
    try {
      while (!condition() && !limit.signal.aborted) {
        await this.changed(AbortSignal.any([signal, limit.signal]));
      }
    } catch (error) {
      if (signal.aborted || !limit.signal.aborted) throw error;
    } finally {
      timer.cancel();
    }
  }

  private async identifyForever(member: Member, signal: AbortSignal): Promise<void> {
    let failures = 0;
    let opens = 0;
    for (;;) {
      const askedAtMs = this.clock.monotonic();
      try {
        const wanted = { latest: this.pool.claims.any };
        member.identity = await askIdentity(member.node, this.expectation(), signal, wanted);
        member.refusedBelow = 0;
        failures = 0;
        this.reached(member);
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof UpstreamError)) throw error;
        this.missed(member, error);
        failures += 1;
      }
      member.tried = true;
      this.judge();
      this.weighClaims(member);
      if (failures === 0) {
        opens = member.identity?.isRootOpen === true ? opens + 1 : 0;
        const isAskedAgain = opens > 0 && opens <= ROOT_ASKED_AGAIN;
        const pauseMs = isAskedAgain ? backoffMs(ROOT_RETRY, opens - 1, this.random) : IDENTIFY_EVERY_MS;
        const lookMs = this.pool.claims.lookInMs(member) ?? IDENTIFY_EVERY_MS;
        await this.pause(Math.min(pauseMs, lookMs), signal, member);
        await this.pause(askedAtMs + IDENTIFY_AT_MOST_EVERY_MS - this.clock.monotonic(), signal);
      } else {
        await this.pause(backoffMs(RETRY, failures - 1, this.random), signal, member);
      }
      if (signal.aborted) return;
      const unwantedMs = this.clock.monotonic() - member.wantedAtMs;
      if (member.origin === 'historic' && unwantedMs > HISTORIC_IDLE_MS) {
        this.pool.remove(member);
        return;
      }
    }
  }

  /**
   * That a node says who it is does not mend the other calls that it fails: its record is cleaned, and the log told, only
   * when it was this question that it did not answer before.
   */
  private reached(member: Member): void {
    member.outage = false;
    if (member.trouble === undefined) return;
    member.trouble = undefined;
    member.node.ledger.succeeded();
    this.logger.info({ endpoint: member.node.name }, 'access node answers again');
  }

  private missed(member: Member, error: UpstreamError): void {
    member.outage = true;
    member.node.ledger.blame('failing');
    const announced = member.trouble !== undefined;
    member.trouble = error.message;
    if (announced) return;
    this.logger.warn(
      { endpoint: member.node.name, kind: error.kind, reason: error.message },
      'access node does not answer',
    );
  }

  /** Where a node tells of a spork that the table does not have, those that should know are asked at once. */
  private weighClaims(member: Member): void {
    const { toAsk, refuted } = this.pool.claims.answered(member);
    for (const other of toAsk) other.wake?.();
    for (const { rootHeight, tellers } of refuted) {
      this.logger.warn(
        { rootHeight, endpoints: tellers.map(({ node }) => node.name) },
        'access node tells of a spork that is not: others go on above its root',
      );
    }
    this.settle();
  }

  /** Judges all nodes anew: what one says of our last block may bear on the others. */
  private judge(): void {
    const expectation = this.expectation();
    const { members } = this.pool;
    for (const member of members) {
      const { identity, node } = member;
      if (identity === undefined) continue;
      const confirmed = members.some(
        (other) =>
          other !== member &&
          isUsable(other) &&
          other.identity !== undefined &&
          confirmsWatermark(other.identity) &&
          !this.mayBeDiscardedBy(identity, other),
      );
      const before = node.ledger.identity;
      member.foreign = foreignness(identity, expectation, confirmed);
      node.ledger.identity = member.foreign === undefined ? 'usable' : 'foreign';
      if (node.ledger.identity !== before) this.announce(member);
    }
  }

  /** What a node has above the root of a later spork, that one may have discarded: unless there is no such spork. */
  private mayBeDiscardedBy({ sporkRootHeight }: NodeIdentity, other: Member): boolean {
    const anchor = anchorOf(other);
    if (sporkRootHeight === undefined || anchor === undefined || anchor >= sporkRootHeight) return false;
    return this.pool.claims.verdict(sporkRootHeight) !== 'refuted';
  }

  private settle(): void {
    this.pool.refreshRanges();
    for (const notify of [...this.watchers]) notify();
  }

  private announce({ node, identity, foreign }: Member): void {
    if (foreign !== undefined) {
      const { reason, expected, found, height } = foreign;
      this.metrics.foreignNodes.inc({ reason });
      // Chain ids are names; ids of sporks and blocks are for the debug log.
      const chains = reason === 'chain' ? { expected, found } : {};
      this.logger.warn(
        { endpoint: node.name, reason, height, ...chains },
        'access node is foreign and left out',
      );
      this.logger.debug({ endpoint: node.name, ...foreign }, 'what the foreign access node has');
      return;
    }
    this.logger.info(
      { endpoint: node.name, semver: identity?.semver, lowestHeight: identity?.lowestHeight },
      'access node identified',
    );
  }

  private refuseForeign(named: readonly Member[]): void {
    const foreign = named.flatMap(({ node, foreign: why }) =>
      why === undefined ? [] : [{ name: node.name, why }],
    );
    if (foreign.length === 0) return;
    const { chainId, network } = this.expectation();
    const found = foreign.map(({ name, why }) => `${name} ${describe(why)}`).join('; ');
    const isOtherChain = foreign.every(({ why }) => why.reason === 'chain');
    throw new OperatorError(
      'foreign',
      isOtherChain
        ? `${found}; ${network === undefined ? 'this daemon' : `--network ${network}`} expects ${chainId}. ` +
            'Set --network and --access-node to match each other.'
        : `${found}: that is another chain than the one in this data directory. Name a node of the same chain ` +
            '(--access-node), use another --data-dir, or forget what does not belong to it: ' +
            'flow-collection-indexer rewind --to HEIGHT --yes keeps what is at and below HEIGHT.',
    );
  }

  private changed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        this.watchers.delete(settle);
        signal.removeEventListener('abort', settle);
        if (signal.aborted) reject(abortReason(signal));
        else resolve();
      };
      this.watchers.add(settle);
      if (signal.aborted) settle();
      else signal.addEventListener('abort', settle, { once: true });
    });
  }

  /** Waits; less when the signal aborts or the member, if one is given, is woken. */
  private pause(pauseMs: number, signal: AbortSignal, member?: Member): Promise<void> {
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
      const timer = this.clock.setTimer(pauseMs, done);
      signal.addEventListener('abort', done, { once: true });
      if (member !== undefined) member.wake = done;
    });
  }
}

function describe({ reason, expected, found, height }: Foreignness): string {
  switch (reason) {
    case 'chain':
      return `serves ${found}`;
    case 'spork':
      return `gives spork ${found} for root height ${height ?? ''}, where ours is ${expected}`;
    case 'block':
      return `has block ${found} at height ${height ?? ''}, where ours is ${expected}`;
  }
}
