import { WireError } from '../../flow/index.js';
import type { Clock } from '../../runtime/index.js';
import { asError } from '../../runtime/index.js';
import { CallFailure } from './channel/CallFailure.js';
import type { AccessMetrics, NodeEvents, PeerToken } from './ports.js';
import { namedRoot, upstreamError } from './upstreamErrors.js';
import type { CallStatus } from './upstreamErrors.js';
import { UpstreamError } from '../UpstreamError.js';
import type { AccessMethod } from '../types.js';

/** A method that a node does not support is not tried again for this long: the node may be upgraded meanwhile. */
const UNSUPPORTED_MS = 300_000;

export interface CallErrorsDependencies {
  readonly clock: Clock;
  readonly peerToken: PeerToken | undefined;
  readonly events: NodeEvents;
  readonly metrics: Pick<AccessMetrics, 'upstreamErrors'>;
}

/** Types and counts the errors of the calls to one node, and remembers the methods that it does not support. */
export class CallErrors {
  readonly #name: string;
  readonly #deps: CallErrorsDependencies;
  readonly #unsupportedUntilMs = new Map<AccessMethod, number>();

  constructor(options: { readonly name: string }, dependencies: CallErrorsDependencies) {
    this.#name = options.name;
    this.#deps = dependencies;
  }

  /** False while the method counts as unsupported by the node. */
  knows(method: AccessMethod): boolean {
    return this.#deps.clock.monotonic() >= (this.#unsupportedUntilMs.get(method) ?? -Infinity);
  }

  /** The error for the caller: statuses and malformed bytes become typed; bugs and aborts stay unchanged. */
  typed(error: unknown, method: AccessMethod): Error {
    if (error instanceof CallFailure) return this.ofStatus(error.status, method);
    if (error instanceof WireError) {
      const message = `${method} at ${this.#name}: malformed answer: ${error.message}`;
      return new UpstreamError('malformed', this.#where(method), message, { cause: error });
    }
    return asError(error);
  }

  ofStatus(status: CallStatus, method: AccessMethod): UpstreamError {
    return upstreamError(status, this.#where(method), mendOf(this.#deps.peerToken));
  }

  /** The error of a call that is not sent, and why. */
  ofLimit(method: AccessMethod, why: string): UpstreamError {
    return new UpstreamError('rate_limited', this.#where(method), `${method} at ${this.#name}: ${why}`);
  }

  count(failure: UpstreamError): void {
    const { clock, events, metrics } = this.#deps;
    const { kind, method, lowestHeight } = failure;
    metrics.upstreamErrors.inc({ endpoint: this.#name, method, kind });
    if (kind === 'unimplemented') this.#unsupportedUntilMs.set(method, clock.monotonic() + UNSUPPORTED_MS);
    // The first height of a stream says nothing about the node's other calls.
    const isOfNode = lowestHeight !== undefined && namedRoot(failure.message)?.of !== 'stream';
    if (kind === 'below_root' && isOfNode) events.onLowestHeight?.(lowestHeight);
    if (kind === 'unavailable') events.onOutage?.();
  }

  #where(method: AccessMethod): { readonly node: string; readonly method: AccessMethod } {
    return { node: this.#name, method };
  }
}

/** What to do about a peer that refuses us without a token, or because of ours. */
function mendOf(peerToken: PeerToken | undefined): string | undefined {
  if (peerToken === undefined) return undefined;
  return peerToken() === undefined
    ? 'put one of its tokens into a file, and name that: --peer-token-file FILE'
    : 'it does not know the token of peerTokenFile: put one of its own into that file';
}
