import type { IncomingMessage } from 'node:http';
import { WebSocket } from 'ws';
import { every, quoted, shortened, type Clock } from '../../runtime/index.js';
import type { ChangeFeed } from '../feed/changeFeed.js';
import type { RestNode } from '../http/restForwarding.js';
import { closeCodes, type WebSocketRoute } from '../http/types.js';
import { forwardCounter } from '../limits/counters.js';
import type { ForwardCounter, ForwardedOutcome, ForwardMetrics } from '../limits/counters.js';
import { places } from '../../runtime/index.js';
import type { ListeningServer } from '../server/ListeningServer.js';
import { ApiError, invalidArgument } from '../view/ApiError.js';
import { blockTopics, endedBy, parseBlockArguments, readMessage } from './messages.js';
import type { BlockTopic, ClientMessage } from './messages.js';
import { openNodeSocket } from './nodeSocket.js';

const MAX_CONNECTIONS = 100;
/** Limit of a client's message: subscriptions are short. */
const MAX_MESSAGE_BYTES = 16 * 1024;
/** The limit where a message may carry a transaction for the node; the same as on access nodes. */
const MAX_FORWARDED_MESSAGE_BYTES = 2 * 1024 * 1024;
/** Subscriptions per connection, as on access nodes. */
const MAX_SUBSCRIPTIONS = 20;
/** Limit of the bytes that a client has not taken; above it, nothing is read from the client or the node. */
const MAX_UNTAKEN_BYTES = 1024 * 1024;
/** A connection without a subscription is closed after this. */
const IDLE_LIMIT_MS = 60_000;
/** Ping interval: a client that has not replied by the next ping is gone. */
const LOOK_EVERY_MS = 20_000;
/** A node that has not replied to this many pings while we read from it is gone. */
const NODE_PINGS = 3;

/** A longer entry of the list, such as of a transaction, is kept and listed without its arguments. */
const MAX_LISTED_CHARACTERS = 16 * 1024;

/** Forwarded topics are counted by these names, and all others by one. */
const nodeTopics: ReadonlySet<string> = new Set([
  ...['events', 'account_statuses', 'transaction_statuses', 'send_and_get_transaction_statuses'],
]);

interface Subscription {
  /** Its entry of the list, in JSON: parsed, it may take up 25 times as much. */
  readonly listed: string;
  /** A node serves it. */
  readonly isForwarded: boolean;
  /** Ends it on our side. */
  readonly end: (outcome: ForwardedOutcome) => void;
}

interface Served {
  readonly feed: ChangeFeed;
  readonly clock: Clock;
  /** For the topics that the index does not serve. Absent: they are refused. */
  readonly restNode: RestNode | undefined;
}

/** Flow's WebSocket API: blocks, their headers and digests from the index, all other topics from a node, if one is configured. */
export function webSocketApi(served: Served & { readonly metrics: ForwardMetrics }): WebSocketRoute {
  const { restNode } = served;
  const parts = { ...served, counter: forwardCounter('rest', served) };
  return {
    path: '/v1/ws',
    maxMessageBytes: restNode === undefined ? MAX_MESSAGE_BYTES : MAX_FORWARDED_MESSAGE_BYTES,
    // Each may open a connection to the node.
    maxConnections: Math.min(MAX_CONNECTIONS, Math.ceil((restNode?.maxSockets ?? Infinity) / 2)),
    accept: (...client) => converse(parts, ...client),
  };
}

/**
 * One connection and its subscriptions, until it closes. Messages are handled one after another, and not read before they can
 * be.
 */
function converse(
  { clock, counter, feed, restNode }: Served & { readonly counter: ForwardCounter },
  socket: WebSocket,
  { headers, socket: { remoteAddress } }: IncomingMessage,
  server: ListeningServer,
): void {
  const subscriptions = new Map<string, Subscription>();
  /** Messages of one packet that are not handled yet. */
  let unhandled = 0;
  const inTurn = places(1);
  let names = 0;
  let idleSinceMs = clock.monotonic();
  /** Pings since the last sign of life of the client, and of the node. */
  const pings = { client: 0, node: 0 };

  /** Opened on first use. */
  let node: ReturnType<typeof openNodeSocket> | undefined;

  /** Pauses reading while messages could only be queued. */
  const flow = (): void => {
    const isFull = socket.bufferedAmount > MAX_UNTAKEN_BYTES;
    node?.socket[isFull ? 'pause' : 'resume']();
    socket[isFull || unhandled > 0 ? 'pause' : 'resume']();
  };
  /** `onTaken` is called once the connection has passed it on. */
  const sendText = (text: string, onTaken?: () => void): void => {
    socket.send(text, (error) => {
      // While its messages are not read, this shows that the client is alive.
      if (socket.isPaused) pings.client = 0;
      flow();
      if (!(error instanceof Error)) onTaken?.();
    });
    flow();
  };
  const send = (message: Readonly<Record<string, unknown>>, onTaken?: () => void): void =>
    sendText(JSON.stringify(message), onTaken);
  const drop = (id: string, outcome: ForwardedOutcome): void => {
    const subscription = subscriptions.get(id);
    if (subscription === undefined) return;
    subscriptions.delete(id);
    idleSinceMs = clock.monotonic();
    subscription.end(outcome);
  };

  /** Closing lets the client reconnect and resume, as with the node itself; an error would end its subscriptions. */
  const lose = (): void => {
    const forwarded = [...subscriptions].filter(([, { isForwarded }]) => isForwarded);
    for (const [id] of forwarded) drop(id, 'lost');
    if (forwarded.length > 0) socket.close(closeCodes.comeBack, 'the access node is gone; reconnect');
  };
  /** Passes a message of the node to the client unchanged. */
  const onText = (text: string): void => {
    const end = endedBy(text);
    if (end !== undefined) drop(...end);
    sendText(text);
  };
  /** Expected errors: ApiError (503). */
  const connected = (to: RestNode): ReturnType<typeof openNodeSocket> => {
    const opening = openNodeSocket(to, headers, { clock, onText });
    opening.socket.once('close', () => (node = undefined));
    opening.socket.once('open', () => opening.socket.once('close', lose));
    for (const sign of ['open', 'message', 'ping', 'pong']) opening.socket.on(sign, () => (pings.node = 0));
    return opening;
  };
  /** Sends to the node. Expected errors: ApiError (503). */
  const toNode = async (to: RestNode, text: string): Promise<void> => {
    node ??= connected(to);
    const { opened, socket: its } = node;
    await opened;
    flow();
    its.send(text);
  };

  /** Called when the feed ends a subscription. */
  const ended = (id: string, reason: unknown): void => {
    drop(id, 'cancelled');
    const known = reason instanceof ApiError ? reason.reason : undefined;
    // The server closes the connection.
    if (known === 'stopping') return;
    // A client that takes nothing would not take a message either.
    if (known === 'overdue') {
      socket.terminate();
      return;
    }
    const { code, message } = server.explain(reason);
    const error =
      known === 'rewound' ? { code, message } : { code: 500, message: `internal error: ${message}` };
    send({ subscription_id: id, action: 'subscribe', error });
  };

  const follow = async (id: string, { args, topic }: ClientMessage, { kind, payload }: BlockTopic) => {
    const { until, start } = parseBlockArguments(args);
    const from = await feed.cursorAt(start);
    if (socket.readyState !== WebSocket.OPEN) return;
    const end = feed.followHeights(
      { kind, from, until },
      {
        send: (event, taken) => send({ subscription_id: id, topic, payload: payload(event, until) }, taken),
        end: (reason) => ended(id, reason),
      },
    );
    subscriptions.set(id, { listed: entryOf(id, topic, args), isForwarded: false, end });
    send({ subscription_id: id, action: 'subscribe' });
  };

  const forward = async (id: string, { topic, args }: ClientMessage): Promise<void> => {
    if (restNode === undefined) {
      const servedHere = [...blockTopics.keys()].join(', ');
      // FCL shows this to its user, after its own words.
      const why = `unsupported topic ${quoted(topic)}: this daemon does not forward it; set its api.forwardRest to the REST address of an access node, or ask the node itself (served here: ${servedHere})`;
      throw noProvider(new ApiError(400, 'not_served', why));
    }
    const entry = entryOf(id, topic, args);
    const listed = entry.length > MAX_LISTED_CHARACTERS ? entryOf(id, shortened(topic), {}) : entry;
    const end = counter.begin(`WS ${nodeTopics.has(topic) ? topic : 'other'}`, 'stream');
    subscriptions.set(id, { listed, isForwarded: true, end });
    try {
      await toNode(restNode, `{"action":"subscribe",${entry.slice(1)}`);
    } catch (error) {
      drop(id, 'unreachable');
      throw error;
    }
  };

  const newName = (): string => {
    do names += 1;
    while (subscriptions.has(`s${names}`));
    return `s${names}`;
  };

  const carryOut = async (message: ClientMessage): Promise<void> => {
    const { action, fault } = message;
    if (fault !== undefined) throw invalidArgument(fault);
    if (action === 'list_subscriptions') {
      const all = [...subscriptions.values()].map(({ listed }) => listed);
      sendText(`{"subscriptions":[${all.join()}],"action":"${action}"}`);
      return;
    }
    if (action === 'unsubscribe') {
      const { id = '' } = message;
      const subscription = subscriptions.get(id);
      if (subscription === undefined) throw new ApiError(404, 'unknown_id', 'subscription not found');
      drop(id, 'cancelled');
      const request = { subscription_id: id, action };
      // The client gets the node's response.
      if (subscription.isForwarded && restNode) await toNode(restNode, JSON.stringify(request));
      else send(request);
      return;
    }
    const id = message.id ?? newName();
    if (subscriptions.has(id)) throw invalidArgument(`subscription ID is already in use: ${quoted(id)}`);
    if (subscriptions.size >= MAX_SUBSCRIPTIONS) {
      const text = `error creating new subscription: maximum number of subscriptions reached (${MAX_SUBSCRIPTIONS})`;
      throw new ApiError(429, 'too_many', text);
    }
    const topic = blockTopics.get(message.topic);
    if (topic === undefined) await forward(id, message);
    else
      await follow(id, message, topic).catch((error: unknown) => {
        throw error instanceof ApiError ? noProvider(error) : error;
      });
  };

  /** Never rejects. */
  const handle = async (text: string): Promise<void> => {
    if (socket.readyState !== WebSocket.OPEN) return;
    const tooSoon = server.limiter.refusal(remoteAddress);
    if (tooSoon !== undefined) {
      send({ error: { code: tooSoon.code, message: tooSoon.message } });
      return;
    }
    const message = readMessage(text);
    try {
      await carryOut(message);
    } catch (error) {
      const { code, message: why } = server.explain(error);
      const words = error instanceof ApiError ? why : `internal error: ${why}`;
      const { action, id } = message;
      send({ subscription_id: id, action, error: { code, message: words } });
    }
  };

  /** Cuts an unresponsive client, and closes an unused connection. */
  const look = (): void => {
    // While a message is handled, nothing is read from the client.
    const isAwaited = unhandled === 0;
    if (isAwaited && pings.client > 0) {
      socket.terminate();
    } else if (isAwaited && subscriptions.size === 0 && clock.monotonic() - idleSinceMs >= IDLE_LIMIT_MS) {
      socket.close(closeCodes.done, `no subscription for ${IDLE_LIMIT_MS / 1_000} s`);
    } else {
      pings.client += 1;
      socket.ping();
    }
    if (node?.socket.readyState !== WebSocket.OPEN) return;
    if (node.socket.isPaused) pings.node = 0;
    if (pings.node === NODE_PINGS) node.socket.terminate();
    else node.socket.ping();
    pings.node += 1;
  };

  socket.on('pong', () => (pings.client = 0));
  // In a frame of text or of bytes, as on access nodes.
  socket.on('message', (data) => {
    pings.client = 0;
    // By default `ws` delivers data in one buffer.
    if (!Buffer.isBuffer(data)) return;
    const text = data.toString();
    unhandled += 1;
    flow();
    void inTurn(() => handle(text)).then(() => {
      unhandled -= 1;
      flow();
    });
  });
  const timer = every(clock, LOOK_EVERY_MS, look);
  socket.once('close', () => {
    timer.cancel();
    for (const id of [...subscriptions.keys()]) drop(id, 'cancelled');
    node?.socket.terminate();
  });
}

/** An entry of the list, in JSON. */
function entryOf(id: string, topic: string, args: object): string {
  return JSON.stringify({ subscription_id: id, topic, arguments: args });
}

/** The refusal of a topic. */
function noProvider({ code, message, reason }: ApiError): ApiError {
  return new ApiError(code, reason, `error creating data provider: ${message}`);
}
