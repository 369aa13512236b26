import type { IncomingHttpHeaders } from 'node:http';
import type { WebSocket } from 'ws';
import type { Clock } from '../../runtime/index.js';
import type { ChangeFeed } from '../feed/ChangeFeed.js';
import { forwardCounter } from '../limits/counters.js';
import type { ForwardCounter, ForwardMetrics } from '../limits/counters.js';
import type { RestNode } from '../http/RestForwarding.js';
import type { WebSocketCaller, WebSocketRoute } from '../http/types.js';
import { ApiError, stopping } from '../view/ApiError.js';
import { WsClient } from './WsClient.js';

/** Maximum connections. */
const MAX_CONNECTIONS = 100;
/** Limit of a client's message: subscriptions are short. */
const MAX_MESSAGE_BYTES = 16 * 1024;
/** The limit where a message may carry a transaction for the node; the same as on access nodes. */
const MAX_FORWARDED_MESSAGE_BYTES = 2 * 1024 * 1024;
/** From the registry of RFC 6455. */
const TRY_AGAIN_LATER = 1013;
const UNAUTHORIZED = 3000;
/** What a close frame has room for beside its code (RFC 6455, section 5.5). */
const MAX_REASON_BYTES = 123;

interface WebSocketsDependencies {
  readonly feed: ChangeFeed;
  readonly clock: Clock;
  /** Absent: forwarded topics are not counted. */
  readonly metrics?: ForwardMetrics | undefined;
}

/**
 * Flow's WebSocket API: blocks and their digests from the index, all other topics from a node, if one is configured.
 */
export class WebSockets implements WebSocketRoute {
  readonly path = '/v1/ws';
  readonly maxMessageBytes: number;
  readonly #maxConnections: number;
  readonly #restNode: RestNode | undefined;
  readonly #dependencies: WebSocketsDependencies;
  readonly #forwarded: ForwardCounter;
  readonly #clients = new Set<WsClient>();
  /** Refused connections that have not closed yet; the server bounds its connections. */
  readonly #turnedAway = new Set<WebSocket>();
  #isClosed = false;

  constructor(options: { readonly restNode: RestNode | undefined }, dependencies: WebSocketsDependencies) {
    this.#restNode = options.restNode;
    // Each may open a connection to the node.
    this.#maxConnections = Math.min(
      MAX_CONNECTIONS,
      Math.ceil((options.restNode?.maxSockets ?? Infinity) / 2),
    );
    this.#dependencies = dependencies;
    this.#forwarded = forwardCounter('rest', dependencies);
    this.maxMessageBytes = options.restNode === undefined ? MAX_MESSAGE_BYTES : MAX_FORWARDED_MESSAGE_BYTES;
  }

  accept(socket: WebSocket, headers: IncomingHttpHeaders, caller: WebSocketCaller): void {
    const refusal = this.#refusal() ?? caller.refusal;
    if (refusal !== undefined) {
      this.#turnAway(socket, refusal);
      return;
    }
    const client: WsClient = new WsClient(socket, headers, {
      ...this.#dependencies,
      restNode: this.#restNode,
      caller,
      forwarded: this.#forwarded,
      onClose: () => this.#clients.delete(client),
    });
    this.#clients.add(client);
  }

  close(): void {
    this.#isClosed = true;
    for (const client of [...this.#clients]) client.close();
  }

  cut(): void {
    for (const client of [...this.#clients]) client.cut();
    for (const socket of [...this.#turnedAway]) socket.terminate();
  }

  #refusal(): ApiError | undefined {
    if (this.#isClosed) return stopping();
    if (this.#clients.size < this.#maxConnections) return undefined;
    return new ApiError(503, 'busy', `at most ${this.#maxConnections} connections at once`);
  }

  /**
   * The connection is accepted and then closed, so that a client handles it like any other close: FCL in Node.js does
   * not listen for handshake errors, and one would end its process.
   */
  #turnAway(socket: WebSocket, { message, reason }: ApiError): void {
    this.#turnedAway.add(socket);
    socket.once('close', () => this.#turnedAway.delete(socket));
    const code = reason === 'unauthorized' ? UNAUTHORIZED : TRY_AGAIN_LATER;
    socket.close(code, Buffer.from(message).subarray(0, MAX_REASON_BYTES));
  }
}
