import type { Clock } from '../../runtime/index.js';
import type { AccessMethod } from '../types.js';
import type { UpstreamError, UpstreamErrorKind } from '../UpstreamError.js';

/** How a node fails to answer; decides the readiness code. */
export type TroubleKind =
  /** It cannot be reached, or does not answer. */
  | 'unreachable'
  /** It says that it does not have it: it may be early, or others may have it. */
  | 'denied'
  /** It answers with an error. */
  | 'refused'
  /** Its rate limit holds us back. */
  | 'rate_limited'
  /** It gives wrong data. */
  | 'invalid';

/** How one node repeatedly failed one question; if it was asked by several calls, the worst of them. */
export interface NodeTrouble {
  readonly node: string;
  readonly method: AccessMethod;
  readonly kind: TroubleKind;
  /** The latest failure: the status and the node's own words, or what is wrong with its answer. */
  readonly said: string;
  /** 0 while it has not answered at all. */
  readonly count: number;
  /** Monotonic milliseconds of the first failure, or of the question that has no answer yet. */
  readonly sinceMs: number;
}

/** How a node failed, by call: the latest of each. */
interface Failures {
  count: number;
  readonly sinceMs: number;
  readonly last: Map<AccessMethod, Pick<NodeTrouble, 'method' | 'kind' | 'said'>>;
}

/** Wrong data weighs more than a refusal, that more than silence, and that more than a denial. */
const WEIGHTS: Readonly<Record<TroubleKind, number>> = {
  denied: 0,
  unreachable: 1,
  rate_limited: 2,
  refused: 2,
  invalid: 3,
};

/** A question that is unanswered for this long counts as trouble. */
export const SILENT_AFTER_MS = 3_000;

/**
 * By node: why something that is requested until it arrives has not arrived. Cleared when it does. Bounded by the
 * number of nodes.
 */
export class NodeTroubles {
  readonly #clock: Clock;
  readonly #failures = new Map<string, Failures>();
  readonly #open = new Map<string, { readonly method: AccessMethod; readonly askedAtMs: number }>();

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
  }

  /** A question was sent; one at a time for each node. */
  asked(node: string, method: AccessMethod): void {
    this.#open.set(node, { method, askedAtMs: this.#clock.monotonic() });
  }

  /** A call failed. */
  failed(error: UpstreamError): void {
    this.note(error.node, error.method, troubleOf(error.kind), error.message);
  }

  note(node: string, method: AccessMethod, kind: TroubleKind, said: string): void {
    this.#open.delete(node);
    let failures = this.#failures.get(node);
    if (failures === undefined) {
      failures = { count: 0, sinceMs: this.#clock.monotonic(), last: new Map() };
      this.#failures.set(node, failures);
    }
    failures.count += 1;
    failures.last.delete(method);
    failures.last.set(method, { method, kind, said });
  }

  /** It answered, not a failure: it will be asked in another way. */
  answered(node: string): void {
    this.#open.delete(node);
  }

  /** The answer arrived, or is no longer wanted. */
  clear(): void {
    this.#failures.clear();
    this.#open.clear();
  }

  /** One per node, in the order of their first failures; then those that have yet to answer. */
  all(): readonly NodeTrouble[] {
    const nowMs = this.#clock.monotonic();
    const silent = [...this.#open].filter(
      ([node, { askedAtMs }]) => !this.#failures.has(node) && nowMs - askedAtMs >= SILENT_AFTER_MS,
    );
    return [
      ...[...this.#failures].map(([node, { count, sinceMs, last }]): NodeTrouble => {
        const [first, ...others] = [...last.values()].reverse();
        if (first === undefined) throw new Error('a failure without a message');
        // While two calls alternate, the cause must not change with each of them.
        const worst = others.reduce((a, b) => (WEIGHTS[b.kind] > WEIGHTS[a.kind] ? b : a), first);
        return { node, ...worst, count, sinceMs };
      }),
      ...silent.map(([node, { method, askedAtMs }]): NodeTrouble => {
        const said = `${method} at ${node}: no answer yet`;
        return { node, method, kind: 'unreachable', said, count: 0, sinceMs: askedAtMs };
      }),
    ];
  }
}

/** The kind of trouble of a failed call. */
export function troubleOf(kind: UpstreamErrorKind): TroubleKind {
  switch (kind) {
    case 'unavailable':
    case 'deadline':
      return 'unreachable';
    case 'rate_limited':
      return 'rate_limited';
    case 'malformed':
    case 'too_large':
      return 'invalid';
    case 'not_yet':
    case 'not_found':
    case 'below_root':
      return 'denied';
    case 'unimplemented':
    case 'invalid_argument':
    case 'failed_precondition':
    case 'internal':
    case 'unauthenticated':
      return 'refused';
  }
}
