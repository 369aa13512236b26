import { once } from 'node:events';
import type { IncomingHttpHeaders } from 'node:http';
import { WebSocket } from 'ws';
import { withoutValues } from '../../access/index.js';
import { messageOf, type Clock } from '../../runtime/index.js';
import { failureOf, requestHeaders, type RestNode } from '../http/restForwarding.js';
import { circleRefusal } from '../limits/hops.js';
import { ApiError } from '../view/ApiError.js';

/** For the connection to the node, handshake included. */
const CONNECT_TIMEOUT_MS = 5_000;
/** Limit of one message of the node, which may hold all events of a block. */
const MAX_NODE_MESSAGE_BYTES = 32 * 1024 * 1024;

/**
 * Connects to the node, for the topics of one client that the index does not serve. `headers`: of the client's handshake.
 * `opened` resolves once the node may be sent to. Expected errors of `opened`, and of the call: ApiError (503).
 */
export function openNodeSocket(
  { base, how, metadata, turns }: RestNode,
  headers: IncomingHttpHeaders,
  { clock, onText }: { readonly clock: Clock; readonly onText: (text: string) => void },
): { readonly socket: WebSocket; readonly opened: Promise<void> } {
  const circle = circleRefusal(headers.via);
  if (circle !== undefined) throw circle;
  const sent = metadata();
  // The origin of a page is checked here.
  const { origin: _origin, ...asked } = requestHeaders(headers, sent);
  const startedMs = clock.monotonic();
  const socket = new WebSocket(addressOf(base), {
    ...how,
    headers: asked,
    handshakeTimeout: CONNECT_TIMEOUT_MS,
    maxPayload: MAX_NODE_MESSAGE_BYTES,
    perMessageDeflate: false,
  });
  // By default `ws` delivers data in one buffer.
  socket.on('message', (data) => Buffer.isBuffer(data) && onText(withoutValues(data.toString(), sent)));
  // `close` always follows.
  socket.on('error', () => undefined);
  const opened = once(socket, 'open').then(turns.answered, (error: unknown) => {
    turns.unanswered(startedMs);
    // An error of `ws` itself has no code, and names no address.
    const why = error instanceof Error ? failureOf(error) : '';
    throw unreachable(why || ` (${messageOf(error)})`);
  });
  return { socket, opened };
}

function addressOf(base: URL): string {
  const url = new URL(base);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  url.pathname = `${url.pathname.replace(/\/$/, '')}/v1/ws`;
  return url.href;
}

function unreachable(why: string): ApiError {
  return new ApiError(
    503,
    'upstream_unreachable',
    `this topic is forwarded, but the access node (api.forwardRest) cannot be reached now${why}; the topics of blocks are still served`,
  );
}
