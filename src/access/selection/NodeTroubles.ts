import type { Clock } from '../../runtime/index.js';
import type { AccessMethod, AccessNode, AccessNodes, NodeFault } from '../types.js';
import { outcomeOf, UpstreamError, type UpstreamErrorKind } from '../UpstreamError.js';

/** How a node fails to answer; decides the readiness code. */
export type TroubleKind =
  /** The node cannot be reached, or does not answer. */
  | 'unreachable'
  /** The node answers that it does not have the data: it may be too early, or other nodes may have it. */
  | 'denied'
  /** The node answers with an error. */
  | 'refused'
  /** The node's rate limit holds us back. */
  | 'rate_limited'
  /** The node sends a block that nothing proves. */
  | 'unproven'
  /** The node sends wrong data. */
  | 'invalid';

/** How one node repeatedly failed to answer one question; of several calls, the worst. */
export interface NodeTrouble {
  readonly node: string;
  readonly method: AccessMethod;
  readonly kind: TroubleKind;
  /** The latest failure: status and message of the node, or what is wrong with its answer. */
  readonly said: string;
  /** 0 for a question that has no answer yet. */
  readonly count: number;
  /** Monotonic milliseconds of the first failure, or of that question. */
  readonly sinceMs: number;
}

/** After this many unanswered calls in a row, of any kind, a node is silent, whatever it answered some time before. */
const SILENCES_IN_A_ROW = 2;
/** Longer than the pauses between two tries of one call, so that the cause stays while two calls take turns. */
const SAID_BEFORE_MS = 15_000;

/** Wrong data is worse than a refusal, a refusal is worse than silence, and silence is worse than a denial. */
const FROM_BEST_TO_WORST = ['denied', 'unreachable', 'rate_limited', 'refused', 'unproven', 'invalid'];

type Failure = Pick<NodeTrouble, 'method' | 'kind' | 'said'> & { readonly atMs: number };

/** The worse of two failures; of equally bad ones, the latest. */
export function worse<T extends Failure>(one: T, other: T): T {
  const by = FROM_BEST_TO_WORST.indexOf(other.kind) - FROM_BEST_TO_WORST.indexOf(one.kind);
  return (by || other.atMs - one.atMs) < 0 ? one : other;
}

/** How a node failed to deliver one item: the latest failure of each call. */
export class Failures {
  count = 0;
  sinceMs = Infinity;
  /** How often in a row it did not answer at all. */
  #silences = 0;
  readonly #last = new Map<AccessMethod, Failure>();

  /** `isAll`: the earlier failures of other calls no longer count. */
  note(failure: Failure, isAll = false): void {
    const { atMs, kind, method } = failure;
    if (isAll) this.#last.clear();
    this.count += 1;
    this.sinceMs = Math.min(this.sinceMs, atMs);
    this.#silences = kind === 'unreachable' ? this.#silences + 1 : 0;
    const isSilent = this.#silences >= SILENCES_IN_A_ROW;
    for (const [other, before] of this.#last)
      if (other === method || (isSilent && atMs - before.atMs >= SAID_BEFORE_MS)) this.#last.delete(other);
    this.#last.set(method, failure);
  }

  /** While two calls alternate, the cause must not change with each of them. */
  worst(): Failure {
    return [...this.#last.values()].reduce(worse);
  }
}

/** A question that is unanswered for this long counts as trouble. */
export const SILENT_AFTER_MS = 3_000;

/**
 * Per node: why something that is requested until it arrives has not arrived yet. Cleared when it does. A question counts
 * once it has failed: each has a deadline of a few seconds. Bounded by the number of nodes.
 */
export class NodeTroubles {
  readonly #clock: Clock;
  readonly #failures = new Map<string, Failures>();

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
  }

  /** `isAll`: the earlier failures of other calls no longer count. */
  failed(error: UpstreamError, isAll = false): void {
    this.note(error.node, error.method, troubleOf(error.kind), error.message, isAll);
  }

  note(node: string, method: AccessMethod, kind: TroubleKind, said: string, isAll = false): void {
    const failures = this.#failures.get(node) ?? new Failures();
    this.#failures.set(node, failures);
    failures.note({ method, kind, said, atMs: this.#clock.monotonic() }, isAll);
  }

  /** The answer arrived, or is no longer wanted. */
  clear(): void {
    this.#failures.clear();
  }

  /** One per node, in the order of their first failures. */
  all(): readonly NodeTrouble[] {
    return [...this.#failures].map(([node, failures]) => {
      const { atMs: _, ...worst } = failures.worst();
      return { node, count: failures.count, sinceMs: failures.sinceMs, ...worst };
    });
  }
}

/** Of each kind of failed call: the kind of trouble, and the fault of the node, if any. */
const JUDGEMENTS: Readonly<Record<UpstreamErrorKind, readonly [TroubleKind, NodeFault?]>> = {
  unavailable: ['unreachable', 'failing'],
  deadline: ['unreachable', 'stale'],
  rate_limited: ['rate_limited'],
  malformed: ['invalid', 'failing'],
  forged: ['invalid', 'lied'],
  too_large: ['invalid', 'failing'],
  unproven: ['unproven'],
  not_yet: ['denied'],
  not_found: ['denied'],
  below_root: ['denied'],
  unimplemented: ['refused'],
  invalid_argument: ['refused'],
  failed_precondition: ['refused'],
  internal: ['refused', 'failing'],
  unauthenticated: ['refused', 'failing'],
};

export function troubleOf(kind: UpstreamErrorKind): TroubleKind {
  return JUDGEMENTS[kind][0];
}

/** The fault of the node in a failed call; `undefined` when it has none (data not there yet, busy node, old node). */
export function faultOf(kind: UpstreamErrorKind): NodeFault | undefined {
  return JUDGEMENTS[kind][1];
}

/** Like `outcomeOf`; a failure counts against the node where it is its fault. */
export async function answerOf<T>(
  nodes: Pick<AccessNodes, 'report'>,
  node: AccessNode,
  call: Promise<T>,
): Promise<T | UpstreamError> {
  const answer = await outcomeOf(call);
  const fault = answer instanceof UpstreamError ? faultOf(answer.kind) : undefined;
  if (answer instanceof UpstreamError && fault !== undefined)
    nodes.report(node, fault, answer.message, answer.method);
  return answer;
}
