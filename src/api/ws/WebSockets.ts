import type { IncomingMessage } from 'node:http';
import type { WebSocket } from 'ws';
import type { Clock, Timer } from '../../runtime/index.js';
import type { ChangeFeed } from '../feed/ChangeFeed.js';
import { ForwardingMetrics } from '../limits/ForwardingMetrics.js';
import type { ForwardMetrics } from '../limits/ForwardingMetrics.js';
import type { WebSocketCare, WebSocketRoute } from '../http/types.js';
import { WsClient } from './WsClient.js';

/** Connections at once. */
export const MAX_CONNECTIONS = 100;
/** Of a client's message: subscriptions are short. */
const MAX_MESSAGE_BYTES = 16 * 1024;
/** Where it may bring a transaction for the node; as large as access nodes take. */
const MAX_FORWARDED_MESSAGE_BYTES = 2 * 1024 * 1024;
/** Of the registry of RFC 6455. */
const TRY_AGAIN_LATER = 1013;
/** Between two pings: who has not answered one by the next is gone. */
const LOOK_EVERY_MS = 20_000;

export interface WebSocketsDependencies {
  readonly feed: ChangeFeed;
  readonly clock: Clock;
  /** Left out: what is forwarded is not counted. */
  readonly metrics?: ForwardMetrics | undefined;
}

/** Flow's WebSocket API: blocks and their digests from the index, all other topics from a node, where one is named. */
export class WebSockets implements WebSocketRoute {
  readonly path = '/v1/ws';
  readonly maxMessageBytes: number;
  readonly #forwardRest: string | undefined;
  readonly #dependencies: WebSocketsDependencies;
  readonly #forwarded: ForwardingMetrics;
  readonly #clients = new Set<WsClient>();
  /** Those that have not taken their leave yet; the server bounds its connections. */
  readonly #turnedAway = new Set<WebSocket>();
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(options: { readonly forwardRest: string | undefined }, dependencies: WebSocketsDependencies) {
    this.#forwardRest = options.forwardRest;
    this.#dependencies = dependencies;
    this.#forwarded = new ForwardingMetrics({ protocol: 'rest' }, dependencies);
    this.maxMessageBytes =
      options.forwardRest === undefined ? MAX_MESSAGE_BYTES : MAX_FORWARDED_MESSAGE_BYTES;
  }

  accept(socket: WebSocket, { headers }: IncomingMessage, care: WebSocketCare): void {
    const refusal = this.#refusal(care);
    if (refusal !== undefined) {
      this.#turnAway(socket, refusal);
      return;
    }
    const { feed, clock } = this.#dependencies;
    const client: WsClient = new WsClient(
      { socket, headers, forwardRest: this.#forwardRest },
      {
        ...{ feed, clock, care, forwarded: this.#forwarded },
        onClose: () => {
          this.#clients.delete(client);
          if (this.#clients.size === 0) this.#timer?.cancel();
        },
      },
    );
    this.#clients.add(client);
    if (this.#clients.size === 1) this.#lookLater();
  }

  close(): void {
    this.#isClosed = true;
    for (const client of [...this.#clients]) client.close();
  }

  cut(): void {
    for (const client of [...this.#clients]) client.cut();
    for (const socket of [...this.#turnedAway]) socket.terminate();
  }

  #refusal(care: WebSocketCare): string | undefined {
    if (this.#isClosed) return 'the daemon is stopping';
    if (this.#clients.size >= MAX_CONNECTIONS) return `at most ${MAX_CONNECTIONS} connections at once`;
    const waitSeconds = care.waitSeconds();
    return waitSeconds === 0 ? undefined : `too many requests of one address; wait ${waitSeconds} s`;
  }

  /**
   * The connection is taken and closed, so that a client learns of it as of any other end: FCL in Node.js listens for no error of the
   * handshake, which ends its process.
   */
  #turnAway(socket: WebSocket, reason: string): void {
    this.#turnedAway.add(socket);
    socket.once('close', () => this.#turnedAway.delete(socket));
    socket.close(TRY_AGAIN_LATER, reason);
  }

  #lookLater(): void {
    this.#timer = this.#dependencies.clock.setTimer(LOOK_EVERY_MS, () => {
      this.#lookLater();
      for (const client of [...this.#clients]) client.look();
    });
  }
}
