import { UpstreamError } from '../access/index.js';
import type { AccessMethod, AccessNode, AccessNodes } from '../access/index.js';
import type { Logger } from '../observability/index.js';
import { Backoff, sleep } from '../runtime/index.js';
import type { Clock, Random } from '../runtime/index.js';
import { childOf, Puller, runTogether } from './cancellation.js';
import type { ChildSignal } from './cancellation.js';
import { chooseNode, faultOf } from './nodeChoice.js';
import type { FinalityMetrics } from './ports.js';

const STREAM = 'SubscribeBlockDigestsFromLatest';
const HEADER = 'GetLatestBlockHeader';

/** How often the freshness of the stream is judged. */
const WATCH_INTERVAL_MS = 1_000;

/** A stream that has not delivered what a poll has just seen gets this long before it counts as silent. */
const GRACE_MS = 2_000;

/** After how many streams that never reached a polled height the poll is no longer believed. */
const MAX_MISSES = 2;

export interface HeadFollowerOptions {
  readonly stream: 'finalized' | 'sealed';
  readonly pollIntervalMs: number;
  readonly freshnessPollMs: number;
  readonly silentAfterMs: number;
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
}

export interface HeadFollowerDependencies {
  readonly nodes: AccessNodes;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Pick<FinalityMetrics, 'streamReopens'>;
  /** Any node has answered. */
  readonly onAnswer: () => void;
  /** A height that is at least finalized; not necessarily higher than the last. */
  readonly onHeight: (height: number) => void;
}

/** The node that is followed just now, by stream or by polling. */
interface Source {
  readonly node: AccessNode;
  readonly method: AccessMethod;
  readonly cancel: ChildSignal;
  deliveredAtMs: number;
  height: number;
  /** The first height that a poll has seen above this source, until the source reaches it. */
  owed: { readonly height: number; readonly sinceMs: number } | undefined;
  stale: boolean;
}

/**
 * Follows one head (finalized or sealed) by the digest stream of one node at a time, or by polling where no node in good
 * standing streams. Beside it, a slow poll that goes round the nodes tells whether the source keeps up: an open socket
 * proves nothing. A source that delivers nothing, or lags, while the polled head moves is replaced.
 */
export class HeadFollower {
  readonly #options: HeadFollowerOptions;
  readonly #deps: HeadFollowerDependencies;
  readonly #backoff: Backoff;
  readonly #avoid = new Set<string>();
  #source: Source | undefined;
  #polled = { height: -1, misses: 0 };
  #polls = 0;
  /** The highest height that any source has delivered: only what is above it shows that a source does its work. */
  #best = -1;
  #deliveredAtMs: number;
  /** True while the trouble with the source was logged and none has delivered since. */
  #troubled = false;

  constructor(options: HeadFollowerOptions, dependencies: HeadFollowerDependencies) {
    this.#options = options;
    this.#deps = dependencies;
    this.#backoff = new Backoff(
      { minMs: options.backoffMinMs, maxMs: options.backoffMaxMs },
      { random: dependencies.random },
    );
    this.#deliveredAtMs = dependencies.clock.monotonic();
  }

  /** Milliseconds since the source last delivered a new height. */
  ageMs(): number {
    return this.#deps.clock.monotonic() - this.#deliveredAtMs;
  }

  run(signal: AbortSignal): Promise<void> {
    return runTogether(signal, [
      (ended) => this.#follow(ended),
      (ended) => this.#poll(ended),
      (ended) => this.#watch(ended),
    ]);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    for (;;) {
      const node = chooseNode(this.#deps.nodes.live(STREAM), STREAM, this.#avoid);
      if (node === undefined) {
        await sleep(this.#deps.clock, this.#backoff.nextMs(), signal);
        continue;
      }
      const reason = await this.#followNode(node, signal);
      if (reason === 'streams_again') continue;
      this.#avoid.add(node.name);
      this.#deps.metrics.streamReopens.inc({ stream: this.#options.stream, reason });
      await sleep(this.#deps.clock, this.#backoff.nextMs(), signal);
    }
  }

  /** Resolves with the reason why this node is no longer followed. Expected errors: the signal's abort reason. */
  async #followNode(node: AccessNode, signal: AbortSignal): Promise<string> {
    const polling = !node.supports(STREAM);
    const method = polling ? HEADER : STREAM;
    const cancel = childOf(signal);
    const deliveredAtMs = this.#deps.clock.monotonic();
    const source: Source = { node, method, cancel, deliveredAtMs, height: -1, owed: undefined, stale: false };
    this.#source = source;
    const heights = new Puller(
      polling ? this.#pollNode(node, cancel.signal) : this.#streamNode(node, cancel.signal),
      cancel.signal,
    );
    try {
      for (;;) {
        const pulled = await heights.pull();
        if (pulled === 'silent' || pulled.done === true) return polling ? 'streams_again' : 'ended';
        this.#delivered(source, pulled.value);
      }
    } catch (error) {
      if (source.stale) return 'stale';
      if (!(error instanceof UpstreamError)) throw error;
      const fault = faultOf(error.kind);
      if (fault !== undefined) this.#deps.nodes.blame(node, fault, error.message, method);
      this.#trouble({ node: node.name, kind: error.kind, error: error.message });
      return error.kind;
    } finally {
      cancel.abort();
      heights.leave();
      this.#source = undefined;
    }
  }

  async *#streamNode(node: AccessNode, signal: AbortSignal): AsyncGenerator<number, void> {
    const sealed = this.#options.stream === 'sealed';
    for await (const digest of node.subscribeBlockDigests({ signal, sealed })) yield digest.height;
  }

  /** Ends when the node may know streams by now. */
  async *#pollNode(node: AccessNode, signal: AbortSignal): AsyncGenerator<number, void> {
    while (!node.supports(STREAM)) {
      const header = await node.getLatestBlockHeader(this.#options.stream === 'sealed', { signal });
      yield header.height;
      await sleep(this.#deps.clock, this.#options.pollIntervalMs, signal);
    }
  }

  #delivered(source: Source, height: number): void {
    this.#deps.onAnswer();
    if (height <= source.height) return;
    if (source.height < 0) this.#deps.nodes.succeeded(source.node, source.method);
    source.height = height;
    source.deliveredAtMs = this.#deps.clock.monotonic();
    if (source.owed !== undefined && height >= source.owed.height) source.owed = undefined;
    this.#deliveredAtMs = source.deliveredAtMs;
    if (height > this.#best) {
      this.#best = height;
      this.#avoid.clear();
      this.#backoff.reset();
    }
    if (this.#troubled) {
      this.#troubled = false;
      this.#deps.logger.info({ stream: this.#options.stream, node: source.node.name }, 'head stream is back');
    }
    this.#deps.onHeight(height);
  }

  async #poll(signal: AbortSignal): Promise<void> {
    for (;;) {
      await sleep(this.#deps.clock, this.#options.freshnessPollMs, signal);
      const live = this.#deps.nodes.live(HEADER);
      const healthy = live.filter((candidate) => candidate.healthOf(HEADER) === 'healthy');
      const asked = healthy.length > 0 ? healthy : live;
      const node = asked[this.#polls++ % asked.length];
      if (node === undefined) continue;
      try {
        const header = await node.getLatestBlockHeader(this.#options.stream === 'sealed', {
          signal,
          timeoutMs: this.#options.freshnessPollMs,
        });
        this.#deps.onAnswer();
        if (node.healthOf(HEADER) !== 'healthy') this.#deps.nodes.succeeded(node, HEADER);
        if (header.height > this.#polled.height) this.#polled = { height: header.height, misses: 0 };
        this.#deps.onHeight(header.height);
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error;
        const fault = faultOf(error.kind);
        if (fault !== undefined) this.#deps.nodes.blame(node, fault, error.message, HEADER);
      }
    }
  }

  async #watch(signal: AbortSignal): Promise<void> {
    for (;;) {
      await sleep(this.#deps.clock, WATCH_INTERVAL_MS, signal);
      const source = this.#source;
      if (source !== undefined) this.#judge(source, this.#deps.clock.monotonic());
    }
  }

  #judge(source: Source, nowMs: number): void {
    const { silentAfterMs } = this.#options;
    if (source.owed === undefined && this.#polled.height > source.height)
      source.owed = { height: this.#polled.height, sinceMs: nowMs };
    if (source.owed === undefined) return;
    const owedMs = nowMs - source.owed.sinceMs;
    const silent = nowMs - source.deliveredAtMs >= silentAfterMs && owedMs >= GRACE_MS;
    if (!silent && owedMs < silentAfterMs) return;

    source.stale = true;
    this.#deps.nodes.blame(
      source.node,
      'stale',
      `its ${this.#options.stream} head stood at ${source.height} while ${source.owed.height} was known`,
      source.method,
    );
    this.#trouble({
      node: source.node.name,
      kind: 'stale',
      height: source.height,
      polled: source.owed.height,
    });
    this.#polled.misses += 1;
    if (this.#polled.misses >= MAX_MISSES) this.#polled = { height: -1, misses: 0 };
    source.cancel.abort();
  }

  #trouble(fields: object): void {
    const message = 'head stream is opened again';
    const all = { stream: this.#options.stream, ...fields };
    if (this.#troubled) this.#deps.logger.debug(all, message);
    else this.#deps.logger.warn(all, message);
    this.#troubled = true;
  }
}
