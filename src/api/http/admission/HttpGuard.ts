import type { IncomingMessage } from 'node:http';
import { TLSSocket } from 'node:tls';
import type { FastifyRequest } from 'fastify';
import type { ApiSecrets } from '../../guard/tls.js';
import { TokenGuard } from '../../guard/TokenGuard.js';
import type { Cost, Credentials, GuardOptions } from '../../guard/TokenGuard.js';
import type { ApiError } from '../../view/ApiError.js';

/** Decides by their credentials which requests may pass. */
export class HttpGuard {
  readonly #tokens: TokenGuard;
  /** Requests of callers that may do everything. */
  readonly #known = new WeakSet<IncomingMessage>();

  constructor(options: GuardOptions) {
    this.#tokens = new TokenGuard(options);
  }

  /** False: every caller may do everything. */
  get isOn(): boolean {
    return this.#tokens.isOn;
  }

  set(secrets: ApiSecrets): void {
    this.#tokens.set(secrets);
  }

  /** Like `TokenGuard.covers`. */
  covers(cost: Cost): boolean {
    return this.#tokens.covers(cost);
  }

  /**
   * Why a request is refused; `undefined` if it may pass. Call it once: it removes the credentials, so that our tokens are never
   * forwarded to a node.
   */
  check(request: FastifyRequest, cost: Cost): ApiError | undefined {
    if (!this.#tokens.isOn) return undefined;
    const credentials = credentialsOf(request);
    delete request.raw.headers.authorization;
    if (this.#tokens.knows(credentials)) {
      this.#known.add(request.raw);
      return undefined;
    }
    return this.#tokens.covers(cost) ? this.#tokens.refusal(credentials) : undefined;
  }

  /** Whether an accepted request may also use the access nodes. */
  mayForward({ raw }: FastifyRequest): boolean {
    return !this.#tokens.isOn || this.#known.has(raw);
  }
}

/** Pages cannot give a WebSocket a header: they name the token as the protocol after `bearer`. */
function credentialsOf({ headers, raw, ws }: FastifyRequest): Credentials {
  const [scheme, token] = (headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
  const isProtocol = ws && scheme === 'bearer' && token !== undefined;
  return {
    authorization: headers.authorization ?? (isProtocol ? `Bearer ${token}` : undefined),
    isKnownClient: raw.socket instanceof TLSSocket && raw.socket.authorized,
  };
}
