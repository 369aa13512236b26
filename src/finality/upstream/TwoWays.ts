import { CallHealth } from '../../access/index.js';
import type { AccessMethod, AccessNode, StreamMethod, UnaryMethod } from '../../access/index.js';
import { backoffMs } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';

/** A node to ask, and by which call. */
export interface Way {
  readonly node: AccessNode;
  readonly method: AccessMethod;
}

export interface TwoWaysOptions {
  readonly stream: StreamMethod;
  /** The unary call with the same information. */
  readonly call: UnaryMethod;
  /** The pause between two unsuccessful attempts. */
  readonly pauses: { readonly minMs: number; readonly maxMs: number };
}

export interface TwoWaysDependencies {
  readonly clock: Clock;
  readonly random: Random;
  /** Single calls are used from now on; `reason`: how the last stream failed. */
  readonly onLeft?: (node: string, reason: string) => void;
  /** A stream works again. */
  readonly onBack?: (node: string) => void;
}

/**
 * Chooses the next node, and which of two equivalent calls to use there: the best healthy one that streams; else the
 * best healthy one by single calls; else the best there is. A node that has just failed is asked after the others.
 * After two failed streams in a row single calls are used for a while; when a single call fails then, streams are tried
 * again.
 */
export class TwoWays {
  readonly #options: TwoWaysOptions;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #onLeft: TwoWaysDependencies['onLeft'];
  readonly #onBack: TwoWaysDependencies['onBack'];
  /**
   * The stream's health at all nodes together: two consecutive failures, at any nodes, switch to single calls.
   */
  readonly #streams: CallHealth;
  /** Nodes whose call has just failed. */
  readonly #avoided = new Set<string>();
  /** Nodes for which only single calls are used, and until when. */
  readonly #callsUntilMs = new Map<string, number>();
  /** Consecutive rounds of all nodes without success. */
  #rounds = 0;
  #hasRoundFailed = false;
  /** How many nodes there were to choose from. */
  #candidates = 1;
  #lastFailure: { readonly node: string; readonly said: string } | undefined;
  /** True from `onLeft` to `onBack`. */
  #isLeft = false;

  constructor(options: TwoWaysOptions, dependencies: TwoWaysDependencies) {
    this.#options = options;
    this.#clock = dependencies.clock;
    this.#streams = new CallHealth(dependencies);
    this.#random = dependencies.random;
    this.#onLeft = dependencies.onLeft;
    this.#onBack = dependencies.onBack;
  }

  isStream({ method }: Way): boolean {
    return method === this.#options.stream;
  }

  /** True while this node should be asked by stream. */
  mayStream(node: AccessNode): boolean {
    if (this.#streams.rests || !node.supports(this.#options.stream)) return false;
    return this.#clock.monotonic() >= (this.#callsUntilMs.get(node.name) ?? -Infinity);
  }

  /** `undefined` when there are no nodes. `mayStream`: which of them may be asked by stream. */
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
      if (this.#hasRoundFailed || ways.length === 0) this.#rounds += 1;
      this.#hasRoundFailed = false;
      candidates = ways;
    }
    const healthy = candidates.filter(({ node, method }) => node.healthOf(method) === 'healthy');
    const chosen = healthy.find((way) => this.isStream(way)) ?? healthy[0] ?? candidates[0];
    if (chosen?.method === call) this.#tellLeft();
    return chosen;
  }

  /** The pause before the next attempt: shorter with more nodes. */
  pauseMs(): number {
    return backoffMs(this.#options.pauses, this.#rounds, this.#random) / this.#candidates;
  }

  /** The node is asked after the others; this does not count against its call. */
  avoid(way: Way): void {
    this.skip(way);
    this.#hasRoundFailed = true;
  }

  /** Like `avoid`, but without lengthening the pause: the requested data will be there in a moment. */
  skip(way: Way): void {
    this.#avoided.add(keyOf(way));
  }

  /** The node has no free stream, or none that can be trusted: uses single calls there for this long. */
  callInstead(node: string, durationMs: number): void {
    this.#callsUntilMs.set(node, this.#clock.monotonic() + durationMs);
  }

  /** The call failed and delivered nothing. */
  failed(way: Way, said: string): void {
    this.avoid(way);
    if (!this.isStream(way)) {
      this.#streams.endRest();
      return;
    }
    this.#lastFailure = { node: way.node.name, said };
    this.#streams.report('failing', said);
  }

  /** Something new arrived: nodes that failed before may be asked again. */
  cameBy(): void {
    this.#avoided.clear();
    this.#rounds = 0;
  }

  /** A stream works. */
  streams({ node }: Way): void {
    this.#streams.succeeded();
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
