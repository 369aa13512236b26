import type { Clock } from '../runtime/index.js';
import type { AccessMethod, UpstreamError, UpstreamErrorKind } from './types.js';

/** What a node does instead of giving what is asked; decides which reason for not being ready is given. */
export type TroubleKind =
  /** It cannot be reached, or does not answer. */
  | 'unreachable'
  /** It answers with an error. */
  | 'refused'
  /** Its rate limit holds us back. */
  | 'rate_limited'
  /** What it gives is wrong. */
  | 'invalid';

/** What one node said, in a row, to one question. */
export interface NodeTrouble {
  readonly node: string;
  readonly method: AccessMethod;
  readonly kind: TroubleKind;
  /** The last of it: the status and the node's own words, or what is wrong with what it gave. */
  readonly said: string;
  /** 0 while it has said nothing at all. */
  readonly count: number;
  /** Monotonic milliseconds of the first failure, or of the question that has no answer yet. */
  readonly sinceMs: number;
}

/** A question without an answer for so long is trouble. */
export const SILENT_AFTER_MS = 3_000;

/**
 * What stands between us and one thing that is asked for until it comes, by node. Cleared when it comes. Bounded by the number
 * of nodes.
 */
export class NodeTroubles {
  readonly #clock: Clock;
  readonly #failures = new Map<string, NodeTrouble>();
  readonly #open = new Map<string, { readonly method: AccessMethod; readonly askedAtMs: number }>();

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
  }

  /** A question leaves; one at a time for each node. */
  asked(node: string, method: AccessMethod): void {
    this.#open.set(node, { method, askedAtMs: this.#clock.monotonic() });
  }

  /** A call failed. */
  failed(error: UpstreamError): void {
    this.note(error.node, error.method, troubleOf(error.kind), error.message);
  }

  note(node: string, method: AccessMethod, kind: TroubleKind, said: string): void {
    this.#open.delete(node);
    const before = this.#failures.get(node);
    const count = (before?.count ?? 0) + 1;
    const sinceMs = before?.sinceMs ?? this.#clock.monotonic();
    this.#failures.set(node, { node, method, kind, said, count, sinceMs });
  }

  /** What it answered is no trouble: it is asked another way. */
  answered(node: string): void {
    this.#open.delete(node);
  }

  /** It came, or is no longer asked for. */
  clear(): void {
    this.#failures.clear();
    this.#open.clear();
  }

  /** In the order in which the nodes first failed; then those that have yet to answer. */
  all(): readonly NodeTrouble[] {
    const nowMs = this.#clock.monotonic();
    const silent = [...this.#open].filter(
      ([node, { askedAtMs }]) => !this.#failures.has(node) && nowMs - askedAtMs >= SILENT_AFTER_MS,
    );
    return [
      ...this.#failures.values(),
      ...silent.map(([node, { method, askedAtMs }]): NodeTrouble => {
        const said = `${method} at ${node}: no answer yet`;
        return { node, method, kind: 'unreachable', said, count: 0, sinceMs: askedAtMs };
      }),
    ];
  }
}

/** Which trouble a failed call is. */
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
    case 'unimplemented':
    case 'invalid_argument':
    case 'failed_precondition':
    case 'internal':
      return 'refused';
  }
}
