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

/**
 * Connects to the node, for the topics of one client that the index does not serve. `opened` resolves once it may be sent to.
 * Expected errors of `opened`, and of the call: ApiError (503).
 */
export function openNodeSocket({
  node,
  headers,
  clock,
  onText,
  onClose,
}: {
  readonly node: RestNode;
  /** The headers of the caller on whose behalf it is opened. */
  readonly headers: IncomingHttpHeaders;
  readonly clock: Clock;
  readonly onText: (text: string) => void;
  readonly onClose: (wasOpen: boolean) => void;
}): { readonly socket: WebSocket; readonly opened: Promise<void> } {
  const circle = circleRefusal(headers.via);
  if (circle !== undefined) throw circle;
  const sent = node.metadata();
  const startedMs = clock.monotonic();
  const socket = new WebSocket(addressOf(node.base), {
    ...node.how,
    headers: headersFor(headers, sent),
    handshakeTimeout: CONNECT_TIMEOUT_MS,
    maxPayload: MAX_NODE_MESSAGE_BYTES,
    perMessageDeflate: false,
  });
  const silence = idleTimeout({
    clock,
    // While a slow client keeps us from reading, the node does not count as silent.
    isExcused: () => socket.isPaused,
    onSilent: () => socket.terminate(),
  });
  socket.on('message', (data) => {
    silence.moved();
    // By default `ws` delivers data in one buffer.
    if (Buffer.isBuffer(data)) onText(withoutValues(data.toString(), sent));
  });
  for (const sign of ['ping', 'pong'] as const) socket.on(sign, silence.moved);
  const opened = new Promise<void>((resolve, reject) => {
    let isOpen = false;
    socket.once('open', () => {
      isOpen = true;
      node.turns.heard();
      silence.begin(SILENCE_TIMEOUT_MS);
      resolve();
    });
    // `close` always follows. An error of `ws` itself has no code, and names no address.
    let why = '';
    socket.on('error', (error) => (why = failureOf(error) || ` (${error.message})`));
    socket.once('close', () => {
      silence.end();
      if (!isOpen) node.turns.unanswered(startedMs);
      onClose(isOpen);
      reject(unreachable(why));
    });
  });
  return { socket, opened };
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
