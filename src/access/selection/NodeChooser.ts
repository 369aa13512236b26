import { backoffMs } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import type {
  AccessMethod,
  AccessNode,
  AccessNodes,
  NodeFault,
  StreamMethod,
  UnaryMethod,
} from '../types.js';
import type { UpstreamError } from '../UpstreamError.js';
import { CallHealth } from './CallHealth.js';
import { NodeTroubles } from './NodeTroubles.js';
import type { TroubleKind } from './NodeTroubles.js';

/** A node to ask, and by which call. */
export interface Way {
  readonly node: AccessNode;
  readonly method: AccessMethod;
}

interface Options {
  readonly stream: StreamMethod;
  /** The unary call with the same information. */
  readonly call: UnaryMethod;
  /** The pause between two unsuccessful attempts. */
  readonly pauses: { readonly minMs: number; readonly maxMs: number };
}

interface Dependencies {
  /** Where failed calls are reported. */
  readonly nodes: Pick<AccessNodes, 'report'>;
  readonly clock: Clock;
  readonly random: Random;
  /** Single calls are used from now on; `reason`: how the last stream failed. */
  readonly onLeft?: (node: string, reason: string) => void;
  /** A stream works again. */
  readonly onBack?: (node: string) => void;
}

/**
 * For something that is read without end: chooses the next node, and which of two equivalent calls to use there, says how
 * long to pause between attempts, and keeps the one record of what went wrong since something came. It chooses the best healthy one that streams; else the
 * best healthy one by single calls; else the best there is. A node that has just failed is asked after the others.
 * After two failed streams in a row single calls are used for a while; when a single call fails then, streams are tried
 * again.
 */
export class NodeChooser {
  /** What went wrong since its user last cleared it, because something came. */
  readonly troubles: NodeTroubles;
  readonly #options: Options;
  readonly #dependencies: Dependencies;
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

  constructor(options: Options, dependencies: Dependencies) {
    this.#options = options;
    this.#dependencies = dependencies;
    this.#streams = new CallHealth(dependencies);
    this.troubles = new NodeTroubles(dependencies);
  }

  isStream({ method }: Way): boolean {
    return method === this.#options.stream;
  }

  /** True while this node should be asked by stream. */
  mayStream(node: AccessNode): boolean {
    if (this.#streams.rests || !node.supports(this.#options.stream)) return false;
    return this.#dependencies.clock.monotonic() >= (this.#callsUntilMs.get(node.name) ?? -Infinity);
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
    return backoffMs(this.#options.pauses, this.#rounds, this.#dependencies.random) / this.#candidates;
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
    this.#callsUntilMs.set(node, this.#dependencies.clock.monotonic() + durationMs);
  }

  /** The way is asked. */
  asked({ node, method }: Way): void {
    this.troubles.asked(node.name, method);
  }

  /**
   * The call failed with an error of the node. `fault`: what counts against the call; `undefined`: nothing, and the node is
   * only asked after the others.
   */
  erred(way: Way, error: UpstreamError, fault: NodeFault | undefined): void {
    // A node too old for the stream is asked by single calls: that holds nothing up.
    if (error.kind === 'unimplemented' && this.isStream(way)) this.troubles.answered(way.node.name);
    else this.troubles.failed(error);
    if (fault === undefined) this.avoid(way);
    else this.#blame(way, fault, error.message);
  }

  /** Nothing came, or too little: names this as what holds up the question, and counts it against the call. */
  blame(way: Way, kind: TroubleKind, fault: NodeFault, said: string): void {
    this.troubles.note(way.node.name, way.method, kind, said);
    this.#blame(way, fault, said);
  }

  #blame(way: Way, fault: NodeFault, said: string): void {
    this.failed(way, said);
    this.#dependencies.nodes.report(way.node, fault, said, way.method);
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
    this.#dependencies.onBack?.(node.name);
  }

  #tellLeft(): void {
    if (this.#isLeft || this.#lastFailure === undefined) return;
    this.#isLeft = true;
    this.#dependencies.onLeft?.(this.#lastFailure.node, this.#lastFailure.said);
  }
}

function keyOf({ node, method }: Way): string {
  return `${node.name} ${method}`;
}
