import type { AccessMethod, AccessNode, StreamMethod, UnaryMethod } from '../../access/index.js';
import { backoffMs, doublingMs } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';

/** Streams that failed in a row, at whichever nodes, before single calls serve instead. */
const FAILURES_BEFORE_CALLS = 2;
/** For how long, before a stream is tried again. */
const CALLS_SERVE = { minMs: 10_000, maxMs: 120_000 };

/** The node that is asked next, and by which call. */
export interface Way {
  readonly node: AccessNode;
  readonly method: AccessMethod;
}

export interface TwoWaysOptions {
  readonly stream: StreamMethod;
  /** Tells the same, one question at a time. */
  readonly call: UnaryMethod;
  /** From one time that a node is asked in vain to the next. */
  readonly pauses: { readonly minMs: number; readonly maxMs: number };
}

export interface TwoWaysDependencies {
  readonly clock: Clock;
  readonly random: Random;
  /** Single calls serve from here on; `reason`: what the last stream did. */
  readonly onLeft?: (node: string, reason: string) => void;
  /** A stream does its work again. */
  readonly onBack?: (node: string) => void;
}

/**
 * Which node is asked next, and by which of the two calls that tell the same: the best healthy one that streams; else the best
 * healthy one by single calls; else the best there is. Whoever has just failed is asked after the others. Streams that fail
 * twice in a row leave the work to single calls for a while; a single call that fails then gives the streams their turn.
 */
export class TwoWays {
  readonly #options: TwoWaysOptions;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #onLeft: TwoWaysDependencies['onLeft'];
  readonly #onBack: TwoWaysDependencies['onBack'];
  /** Nodes whose call has just failed. */
  readonly #avoided = new Set<string>();
  /** Nodes that are asked by single calls, whatever their streams do, and until when. */
  readonly #callsUntilMs = new Map<string, number>();
  /** How often all of them were asked in vain, since something came. */
  #rounds = 0;
  #isRoundInVain = false;
  /** How many there were to ask. */
  #candidates = 1;
  #streamFailures = 0;
  #rests = 0;
  #restsUntilMs = -Infinity;
  #lastFailure: { readonly node: string; readonly said: string } | undefined;
  /** True from when it was told that streams are left until it is told that they are back. */
  #isLeft = false;

  constructor(options: TwoWaysOptions, dependencies: TwoWaysDependencies) {
    this.#options = options;
    this.#clock = dependencies.clock;
    this.#random = dependencies.random;
    this.#onLeft = dependencies.onLeft;
    this.#onBack = dependencies.onBack;
  }

  isStream({ method }: Way): boolean {
    return method === this.#options.stream;
  }

  /** True while this node is to be asked by stream. */
  mayStream(node: AccessNode): boolean {
    const nowMs = this.#clock.monotonic();
    const callsUntilMs = this.#callsUntilMs.get(node.name) ?? -Infinity;
    return nowMs >= this.#restsUntilMs && nowMs >= callsUntilMs && node.supports(this.#options.stream);
  }

  /** `undefined` when there are no nodes. `mayStream`: which of them are to be asked by stream, if not all that may. */
  choose(
    bestFirst: readonly AccessNode[],
    mayStream = (node: AccessNode): boolean => this.mayStream(node),
  ): Way | undefined {
    const { stream, call } = this.#options;
    const ways = bestFirst.map((node): Way => ({ node, method: mayStream(node) ? stream : call }));
    this.#candidates = Math.max(1, ways.length);
    let candidates = ways.filter((way) => !this.#avoided.has(keyOf(way)));
    if (candidates.length === 0) {
      this.#avoided.clear();
      if (this.#isRoundInVain || ways.length === 0) this.#rounds += 1;
      this.#isRoundInVain = false;
      candidates = ways;
    }
    const healthy = candidates.filter(({ node, method }) => node.healthOf(method) === 'healthy');
    const chosen = healthy.find((way) => this.isStream(way)) ?? healthy[0] ?? candidates[0];
    if (chosen?.method === call) this.#tellLeft();
    return chosen;
  }

  /** The pause before the next is asked: the more there are, the sooner. */
  pauseMs(): number {
    return backoffMs(this.#options.pauses, this.#rounds, this.#random) / this.#candidates;
  }

  /** It is asked after the others; nothing speaks against its call. */
  avoid(way: Way): void {
    this.skip(way);
    this.#isRoundInVain = true;
  }

  /** As `avoid`, where it need not wait any longer than usual: what was asked for will be there in a moment. */
  skip(way: Way): void {
    this.#avoided.add(keyOf(way));
  }

  /** The node has no stream to spare, or none that can be trusted: single calls serve there for so long. */
  callInstead(node: string, durationMs: number): void {
    this.#callsUntilMs.set(node, this.#clock.monotonic() + durationMs);
  }

  /** Its call failed, in whatever way, and gave nothing. */
  failed(way: Way, said: string): void {
    this.avoid(way);
    if (!this.isStream(way)) {
      this.#restsUntilMs = -Infinity;
      return;
    }
    this.#lastFailure = { node: way.node.name, said };
    this.#streamFailures += 1;
    if (this.#streamFailures < FAILURES_BEFORE_CALLS) return;
    this.#restsUntilMs = this.#clock.monotonic() + doublingMs(CALLS_SERVE, this.#rests);
    this.#rests += 1;
  }

  /** Something new came: whoever failed before may be asked again. */
  cameBy(): void {
    this.#avoided.clear();
    this.#rounds = 0;
  }

  /** A stream does its work. */
  streams({ node }: Way): void {
    this.#streamFailures = 0;
    this.#rests = 0;
    this.#lastFailure = undefined;
    if (!this.#isLeft) return;
    this.#isLeft = false;
    this.#onBack?.(node.name);
  }

  #tellLeft(): void {
    if (this.#isLeft || this.#lastFailure === undefined) return;
    this.#isLeft = true;
    this.#onLeft?.(this.#lastFailure.node, this.#lastFailure.said);
  }
}

function keyOf({ node, method }: Way): string {
  return `${node.name} ${method}`;
}
