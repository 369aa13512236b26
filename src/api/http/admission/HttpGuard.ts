import type { IncomingMessage } from 'node:http';
import { TLSSocket } from 'node:tls';
import type { FastifyRequest } from 'fastify';
import type { ApiSecrets } from '../../guard/tls.js';
import { TokenGuard } from '../../guard/TokenGuard.js';
import type { Cost, Credentials, GuardOptions } from '../../guard/TokenGuard.js';
import type { ApiError } from '../../view/ApiError.js';

/** Which requests may pass, by what they came with. */
export class HttpGuard {
  readonly #tokens: TokenGuard;
  /** Requests of callers that may do everything. */
  readonly #known = new WeakSet<IncomingMessage>();

  constructor(options: GuardOptions) {
    this.#tokens = new TokenGuard(options);
  }

  set(secrets: ApiSecrets): void {
    this.#tokens.set(secrets);
  }

  /**
   * Why a request is refused; `undefined` where it may pass. Call once: nobody sees its credentials from then on, as a token of
   * ours is none of the node's business.
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

  /** Whether a request that passed may use the access nodes too. */
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
