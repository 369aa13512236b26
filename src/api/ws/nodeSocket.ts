import type { IncomingHttpHeaders } from 'node:http';
import { WebSocket } from 'ws';
import { withoutValues, type NodeMetadata } from '../../access/index.js';
import type { Clock } from '../../runtime/index.js';
import { failureOf, idleTimeout, requestHeaders, type RestNode } from '../http/restForwarding.js';
import { circleRefusal } from '../limits/hops.js';
import { ApiError } from '../view/ApiError.js';

/** For the connection to the node, handshake included. */
const CONNECT_TIMEOUT_MS = 5_000;
/** For a node that sends nothing, not even a pong. */
const SILENCE_TIMEOUT_MS = 60_000;
/** Limit of one message of the node, which may hold all events of a block. */
const MAX_NODE_MESSAGE_BYTES = 32 * 1024 * 1024;

/** One client's connection to the node, for the topics that the index does not serve. Opened on first use. */
export function nodeSocket({
  node,
  headers,
  clock,
  onText,
  onLost,
}: {
  readonly node: RestNode;
  /** The headers of the caller on whose behalf it is opened. */
  readonly headers: IncomingHttpHeaders;
  readonly clock: Clock;
  readonly onText: (text: string) => void;
  /** The node disconnected after it was connected. */
  readonly onLost: () => void;
}) {
  let current: WebSocket | undefined;
  let opening: Promise<void> | undefined;
  let isPaused = false;
  const silence = idleTimeout({
    clock,
    // While a slow client keeps us from reading, the node does not count as silent.
    isExcused: () => isPaused,
    onSilent: () => current?.terminate(),
  });
  const open = (): Promise<void> => {
    const circle = circleRefusal(headers.via);
    if (circle !== undefined) return Promise.reject(circle);
    const sent = node.metadata();
    const startedMs = clock.monotonic();
    const options = {
      ...node.how,
      headers: headersFor(headers, sent),
      handshakeTimeout: CONNECT_TIMEOUT_MS,
      maxPayload: MAX_NODE_MESSAGE_BYTES,
      perMessageDeflate: false,
    };
    const socket = new WebSocket(addressOf(node.base), options);
    current = socket;
    socket.on('message', (data) => {
      silence.moved();
      // By default `ws` delivers data in one buffer.
      if (current === socket && Buffer.isBuffer(data)) onText(withoutValues(data.toString(), sent));
    });
    for (const sign of ['ping', 'pong'] as const) socket.on(sign, silence.moved);
    return new Promise((resolve, reject) => {
      let isOpen = false;
      socket.once('open', () => {
        isOpen = true;
        node.turns.heard();
        if (isPaused) socket.pause();
        silence.begin(SILENCE_TIMEOUT_MS);
        resolve();
      });
      // `close` always follows. An error of `ws` itself has no code, and names no address.
      let why = '';
      socket.on('error', (error) => (why = failureOf(error) || ` (${error.message})`));
      socket.once('close', () => {
        silence.end();
        if (!isOpen) {
          node.turns.unanswered(startedMs);
          reject(unreachable(why));
        }
        opening = undefined;
        if (current !== socket) return;
        current = undefined;
        if (isOpen) onLost();
      });
    });
  };
  return {
    /** Opens the connection if necessary, and sends. Expected errors: ApiError (503). */
    send: async (text: string): Promise<void> => {
      opening ??= open();
      await opening;
      current?.send(text);
    },
    ping: (): void => {
      if (current?.readyState === WebSocket.OPEN) current.ping();
    },
    /** Pauses or resumes reading from the node. */
    setPaused: (mustPause: boolean): void => {
      if (mustPause === isPaused) return;
      isPaused = mustPause;
      if (mustPause) current?.pause();
      else current?.resume();
    },
    close: (): void => {
      silence.end();
      const socket = current;
      current = undefined;
      socket?.terminate();
    },
  };
}

function addressOf(base: URL): string {
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

function unreachable(why: string): ApiError {
  return new ApiError(
    503,
    'upstream_unreachable',
    `this topic is forwarded, but the access node (api.forwardRest) cannot be reached now${why}; the topics blocks and block_digests are still served`,
  );
}
