import { CallHealth } from '../../access/index.js';
import type { AccessMethod, AccessNode, StreamMethod, UnaryMethod } from '../../access/index.js';
import { backoffMs } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';

/** The node that is asked next, and by which call. */
export interface Way {
  readonly node: AccessNode;
  readonly method: AccessMethod;
}

export interface TwoWaysOptions {
  readonly stream: StreamMethod;
  /** Tells the same, one question at a time. */
  readonly call: UnaryMethod;
  /** Between two unsuccessful attempts. */
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
 * Chooses the next node, and which of two equivalent calls to use there: the best healthy one that streams; else the
 * best healthy one by single calls; else the best there is. Whoever has just failed is asked after the others.
 * Streams that fail twice in a row leave the work to single calls for a while; a single call that fails then gives
 * the streams their turn.
 */
export class TwoWays {
  readonly #options: TwoWaysOptions;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #onLeft: TwoWaysDependencies['onLeft'];
  readonly #onBack: TwoWaysDependencies['onBack'];
  /** The stream's health at all nodes together: two that fail in a row, at whichever nodes, give way to single calls. */
  readonly #streams: CallHealth;
  /** Nodes whose call has just failed. */
  readonly #avoided = new Set<string>();
  /** Nodes that are asked by single calls, whatever their streams do, and until when. */
  readonly #callsUntilMs = new Map<string, number>();
  /** Rounds of all nodes without success since the last success. */
  #rounds = 0;
  #isRoundInVain = false;
  /** How many there were to ask. */
  #candidates = 1;
  #lastFailure: { readonly node: string; readonly said: string } | undefined;
  /** True from when it was told that streams are left until it is told that they are back. */
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

  /** True while this node is to be asked by stream. */
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

  /** It is asked after the others; nothing is held against its call. */
  avoid(way: Way): void {
    this.skip(way);
    this.#isRoundInVain = true;
  }

  /** As `avoid`, where it need not wait any longer than usual: what was asked for will be there in a moment. */
  skip(way: Way): void {
    this.#avoided.add(keyOf(way));
  }

  /** The node has no stream left, or none that can be trusted: use single calls there for so long. */
  callInstead(node: string, durationMs: number): void {
    this.#callsUntilMs.set(node, this.#clock.monotonic() + durationMs);
  }

  /** Its call failed, in whatever way, and gave nothing. */
  failed(way: Way, said: string): void {
    this.avoid(way);
    if (!this.isStream(way)) {
      this.#streams.endRest();
      return;
    }
    this.#lastFailure = { node: way.node.name, said };
    this.#streams.report('failing', said);
  }

  /** Something new came: nodes that failed before may be asked again. */
  cameBy(): void {
    this.#avoided.clear();
    this.#rounds = 0;
  }

  /** A stream does its work. */
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
