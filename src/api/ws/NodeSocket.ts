import type { IncomingHttpHeaders } from 'node:http';
import { WebSocket } from 'ws';
import { withoutValues } from '../../access/index.js';
import type { NodeMetadata } from '../../access/index.js';
import { requestHeaders } from '../http/forwarding/forwardedHeaders.js';
import { IdleTimeout } from '../http/forwarding/IdleTimeout.js';
import type { RestNode } from '../http/forwarding/RestForwarding.js';
import type { Clock } from '../../runtime/index.js';
import { RefusedMessage } from './RefusedMessage.js';

/** For the connection to the node, handshake included. */
const CONNECT_TIMEOUT_MS = 5_000;
/** For a node that sends nothing, not even a pong. */
const SILENCE_TIMEOUT_MS = 60_000;
/** Limit of one message of the node, which may hold all events of a block. */
const MAX_NODE_MESSAGE_BYTES = 32 * 1024 * 1024;

interface NodeSocketOptions {
  readonly node: RestNode;
  /** The headers of the caller on whose behalf it is opened. */
  readonly headers: IncomingHttpHeaders;
}

interface NodeSocketDependencies {
  readonly clock: Clock;
  readonly onText: (text: string) => void;
  /** The node disconnected after it was connected. */
  readonly onLost: () => void;
}

/** One client's connection to the node, for the topics that the index does not serve. Opened on first use. */
export class NodeSocket {
  readonly #options: NodeSocketOptions;
  readonly #dependencies: NodeSocketDependencies;
  readonly #silence: IdleTimeout;
  #socket: WebSocket | undefined;
  #opening: Promise<void> | undefined;
  #isPaused = false;

  constructor(options: NodeSocketOptions, dependencies: NodeSocketDependencies) {
    this.#options = options;
    this.#dependencies = dependencies;
    this.#silence = new IdleTimeout(
      { limitMs: SILENCE_TIMEOUT_MS },
      {
        clock: dependencies.clock,
        // While a slow client keeps us from reading, the node does not count as silent.
        isExcused: () => this.#isPaused,
        onSilent: () => this.#socket?.terminate(),
      },
    );
  }

  /** Opens the connection if necessary, and sends. Expected errors: RefusedMessage (503). */
  async send(message: Readonly<Record<string, unknown>>): Promise<void> {
    this.#opening ??= this.#open();
    await this.#opening;
    this.#socket?.send(JSON.stringify(message));
  }

  ping(): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.ping();
  }

  /** Pauses or resumes reading from the node. */
  setPaused(isPaused: boolean): void {
    if (isPaused === this.#isPaused) return;
    this.#isPaused = isPaused;
    if (isPaused) this.#socket?.pause();
    else this.#socket?.resume();
  }

  close(): void {
    this.#silence.end();
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.terminate();
  }

  #open(): Promise<void> {
    const { node, headers } = this.#options;
    const sent = node.metadata();
    const socket = new WebSocket(addressOf(node.to), {
      headers: headersFor(headers, sent),
      handshakeTimeout: CONNECT_TIMEOUT_MS,
      maxPayload: MAX_NODE_MESSAGE_BYTES,
      perMessageDeflate: false,
    });
    this.#socket = socket;
    socket.on('message', (data) => {
      this.#silence.moved();
      // By default `ws` delivers data in one buffer.
      if (this.#socket === socket && Buffer.isBuffer(data))
        this.#dependencies.onText(withoutValues(data.toString(), sent));
    });
    for (const sign of ['ping', 'pong'] as const) socket.on(sign, () => this.#silence.moved());
    return new Promise((resolve, reject) => {
      let isOpen = false;
      socket.once('open', () => {
        isOpen = true;
        if (this.#isPaused) socket.pause();
        this.#silence.begin();
        resolve();
      });
      // `close` always follows, with the reason.
      socket.on('error', () => undefined);
      socket.once('close', () => {
        this.#silence.end();
        if (!isOpen) reject(unreachable());
        this.#opening = undefined;
        if (this.#socket !== socket) return;
        this.#socket = undefined;
        if (isOpen) this.#dependencies.onLost();
      });
    });
  }
}

function addressOf(base: string): string {
  const url = new URL(base);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  url.pathname = `${url.pathname.replace(/\/$/, '')}/v1/ws`;
  return url.href;
}

/** The WebSocket handshake is per connection, and the page's origin is checked here. */
function headersFor(headers: IncomingHttpHeaders, sent: NodeMetadata): Record<string, string> {
  const kept = Object.entries(requestHeaders(headers, sent)).filter(
    ([name, value]) => value !== undefined && name !== 'origin' && !name.startsWith('sec-websocket-'),
  );
  return Object.fromEntries(kept.map(([name, value]) => [name, String(value)]));
}

function unreachable(): RefusedMessage {
  return new RefusedMessage(
    503,
    'this topic is forwarded, but the access node (api.forwardRest) cannot be reached now; the topics blocks and block_digests are still served',
  );
}
