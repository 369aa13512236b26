import type { IncomingHttpHeaders } from 'node:http';
import { WebSocket } from 'ws';
import { every, quoted } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type { ChangeFeed } from '../feed/ChangeFeed.js';
import type { RestNode } from '../http/RestForwarding.js';
import { linksBelow, prefixOf } from '../http/prefix.js';
import type { WebSocketCaller } from '../http/types.js';
import type { ForwardCounter, ForwardedOutcome } from '../limits/counters.js';
import { ApiError, invalidArgument } from '../view/ApiError.js';
import {
  addressOf,
  blockTopics,
  endedBy,
  noProvider,
  parseBlockArguments,
  parseMessage,
} from './messages.js';
import type { BlockTopic, ClientMessage } from './messages.js';
import { nodeSocket } from './nodeSocket.js';

/** Subscriptions per connection, as on access nodes. */
const MAX_SUBSCRIPTIONS = 20;
/** Limit of the bytes that a client has not taken; above it, nothing is read from the client or the node. */
const MAX_UNTAKEN_BYTES = 1024 * 1024;
/** A connection without a subscription is closed after this. */
const IDLE_LIMIT_MS = 60_000;

/** Ping interval: a client that has not replied by the next ping is gone. */
const LOOK_EVERY_MS = 20_000;

/** Codes of RFC 6455, and of its registry. */
const closeCodes = { done: 1000, goingAway: 1001, policy: 1008, comeBack: 1012 } as const;

/** Forwarded topics are counted by these names, and all others by one. */
const nodeTopics: ReadonlySet<string> = new Set([
  ...['events', 'account_statuses', 'transaction_statuses', 'send_and_get_transaction_statuses'],
  'block_headers',
]);

interface WsClientDependencies {
  readonly feed: ChangeFeed;
  readonly clock: Clock;
  /** For the topics that the index does not serve. */
  readonly restNode: RestNode | undefined;
  readonly forwarded: ForwardCounter;
  readonly caller: WebSocketCaller;
  readonly onClose: () => unknown;
}

type Subscribe = ClientMessage & { readonly action: 'subscribe' };

interface Subscription extends Pick<Subscribe, 'topic' | 'args'> {
  /** A node serves it. */
  readonly isForwarded: boolean;
  /** Ends it on our side. */
  readonly end: (outcome: ForwardedOutcome) => void;
}

/** One connection and its subscriptions. Messages are handled one after another, and not read before they can be. */
export class WsClient {
  readonly #socket: WebSocket;
  readonly #dependencies: WsClientDependencies;
  readonly #subscriptions = new Map<string, Subscription>();
  readonly #node: ReturnType<typeof nodeSocket> | undefined;
  /** The path below which a proxy serves us; empty without one. */
  readonly #prefix: string;
  /** Messages of one packet: nothing more is read until they are handled. */
  readonly #messages: string[] = [];
  #isHandling = false;
  #isPaused = false;
  #names = 0;
  #idleSinceMs: number;
  /** The client has sent something since the last check. */
  #hasShownLife = true;

  /** `headers`: of its handshake. */
  constructor(socket: WebSocket, headers: IncomingHttpHeaders, dependencies: WsClientDependencies) {
    const { clock, restNode } = dependencies;
    this.#socket = socket;
    this.#prefix = prefixOf(headers);
    this.#dependencies = dependencies;
    this.#idleSinceMs = clock.monotonic();
    this.#node =
      restNode &&
      nodeSocket({
        node: restNode,
        headers,
        clock,
        onText: (text) => this.#pass(text),
        onLost: () => this.#nodeLost(),
      });
    socket.on('pong', () => (this.#hasShownLife = true));
    socket.on('message', (data, isBinary) => {
      this.#hasShownLife = true;
      if (isBinary || !Buffer.isBuffer(data)) {
        socket.close(closeCodes.policy, 'messages are text');
        return;
      }
      this.#messages.push(data.toString());
      if (!this.#isHandling) void this.#handleAll();
    });
    const timer = every(clock, LOOK_EVERY_MS, () => this.#look());
    socket.once('close', () => {
      timer.cancel();
      for (const id of [...this.#subscriptions.keys()]) this.#drop(id, 'cancelled');
      this.#node?.close();
      dependencies.onClose();
    });
  }

  /** Cuts an unresponsive client, and closes an unused connection. */
  #look(): void {
    const idleMs = this.#dependencies.clock.monotonic() - this.#idleSinceMs;
    if (!this.#hasShownLife) {
      this.#socket.terminate();
    } else if (this.#subscriptions.size === 0 && idleMs >= IDLE_LIMIT_MS) {
      this.#socket.close(closeCodes.done, `no subscription for ${IDLE_LIMIT_MS / 1_000} s`);
    } else {
      this.#hasShownLife = false;
      this.#socket.ping();
      this.#node?.ping();
    }
  }

  close(): void {
    this.#socket.close(closeCodes.goingAway, 'the daemon is stopping');
  }

  cut(): void {
    this.#socket.terminate();
  }

  async #handleAll(): Promise<void> {
    this.#isHandling = true;
    this.#flow();
    for (let text = this.#messages.shift(); text !== undefined; text = this.#messages.shift()) {
      if (this.#isOpen) await this.#handle(text);
    }
    this.#isHandling = false;
    this.#flow();
  }

  get #isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  /** Pauses reading while messages could only be queued. */
  #flow(): void {
    const isFull = this.#socket.bufferedAmount > MAX_UNTAKEN_BYTES;
    this.#node?.setPaused(isFull);
    const mustPause = isFull || this.#isHandling;
    if (mustPause === this.#isPaused) return;
    this.#isPaused = mustPause;
    if (mustPause) this.#socket.pause();
    else this.#socket.resume();
  }

  /** Never rejects. */
  async #handle(text: string): Promise<void> {
    const { countMessage, explain } = this.#dependencies.caller;
    const tooSoon = countMessage();
    if (tooSoon !== undefined) {
      this.#send({ error: { code: tooSoon.code, message: tooSoon.message } });
      return;
    }
    try {
      await this.#carryOut(parseMessage(text));
    } catch (error) {
      const { code, message } = explain(error);
      const why = error instanceof ApiError ? message : `internal error: ${message}`;
      const { action, id } = addressOf(text);
      this.#send({ subscription_id: id, action, error: { code, message: why } });
    }
  }

  async #carryOut(message: ClientMessage): Promise<void> {
    const { action } = message;
    switch (action) {
      case 'list_subscriptions': {
        const subscriptions = [...this.#subscriptions].map(([id, { topic, args }]) => ({
          subscription_id: id,
          topic,
          arguments: args,
        }));
        this.#send({ subscriptions, action });
        return;
      }
      case 'unsubscribe': {
        const { id } = message;
        const subscription = this.#subscriptions.get(id);
        if (subscription === undefined) throw new ApiError(404, 'unknown_id', 'subscription not found');
        this.#drop(id, 'cancelled');
        // The client gets the node's response.
        if (subscription.isForwarded) await this.#node?.send({ subscription_id: id, action });
        else this.#send({ subscription_id: id, action });
        return;
      }
      case 'subscribe':
        await this.#subscribe(message);
    }
  }

  async #subscribe(message: Subscribe): Promise<void> {
    const id = message.id ?? this.#newName();
    if (this.#subscriptions.has(id)) {
      throw invalidArgument(`subscription ID is already in use: ${quoted(id)}`);
    }
    if (this.#subscriptions.size >= MAX_SUBSCRIPTIONS) {
      const text = `error creating new subscription: maximum number of subscriptions reached (${MAX_SUBSCRIPTIONS})`;
      throw new ApiError(429, 'too_many', text);
    }
    const served = blockTopics.get(message.topic);
    if (served === undefined) await this.#forward(id, message);
    else await this.#follow(id, message, served);
  }

  async #follow(id: string, { action, topic, args }: Subscribe, served: BlockTopic): Promise<void> {
    const { feed } = this.#dependencies;
    try {
      const { until, start } = parseBlockArguments(args);
      const from = await feed.cursorAt(start);
      if (!this.#isOpen) return;
      const end = feed.follow(
        { kind: served.kind, from, until },
        {
          send: (event, taken) => {
            const payload = linksBelow(this.#prefix, served.payload(event, until));
            this.#send({ subscription_id: id, topic, payload }, taken);
          },
          end: (reason) => this.#ended(id, reason),
        },
      );
      this.#subscriptions.set(id, { topic, args, isForwarded: false, end });
    } catch (error) {
      if (error instanceof ApiError) throw noProvider(error.code, error.reason, error.message);
      throw error;
    }
    this.#send({ subscription_id: id, action });
  }

  /** Called when the feed ends a subscription. */
  #ended(id: string, reason: unknown): void {
    this.#drop(id, 'cancelled');
    const known = reason instanceof ApiError ? reason.reason : undefined;
    if (known === 'stopping') {
      this.close();
    } else if (known === 'overdue') {
      // A client that takes nothing would not take a message either.
      this.cut();
    } else {
      const { code, message } = this.#dependencies.caller.explain(reason);
      const error =
        known === 'rewound' ? { code, message } : { code: 500, message: `internal error: ${message}` };
      this.#send({ subscription_id: id, action: 'subscribe', error });
    }
  }

  async #forward(id: string, { action, topic, args }: Subscribe): Promise<void> {
    if (this.#node === undefined) {
      throw noProvider(
        400,
        'not_served',
        // FCL shows it to its user, behind words of its own.
        `unsupported topic ${quoted(topic)}: this daemon does not forward it; set its api.forwardRest to the REST address of an access node, or ask the node itself (served here: ${[...blockTopics.keys()].join(', ')})`,
      );
    }
    const method = `WS ${nodeTopics.has(topic) ? topic : 'other'}`;
    const end = this.#dependencies.forwarded.begin(method, 'stream');
    this.#subscriptions.set(id, { topic, args, isForwarded: true, end });
    try {
      await this.#node.send({ subscription_id: id, action, topic, arguments: args });
    } catch (error) {
      this.#drop(id, 'unreachable');
      throw error;
    }
  }

  /** Passes what comes from the node to the client unchanged. */
  #pass(text: string): void {
    // Data, which may be large, has no action; a quote within a string would be escaped.
    if (text.includes('"action"')) {
      const id = endedBy(text);
      if (id !== undefined) this.#drop(id, 'failed');
    }
    this.#sendText(text);
  }

  /** Closing lets the client reconnect and resume, as with the node itself; an error would end its subscriptions. */
  #nodeLost(): void {
    const forwarded = [...this.#subscriptions].filter(([, { isForwarded }]) => isForwarded);
    for (const [id] of forwarded) this.#drop(id, 'lost');
    if (forwarded.length > 0) this.#socket.close(closeCodes.comeBack, 'the access node is gone; reconnect');
  }

  #drop(id: string, outcome: ForwardedOutcome): void {
    const subscription = this.#subscriptions.get(id);
    if (subscription === undefined) return;
    this.#subscriptions.delete(id);
    this.#idleSinceMs = this.#dependencies.clock.monotonic();
    subscription.end(outcome);
  }

  #send(message: Readonly<Record<string, unknown>>, onTaken?: () => void): void {
    this.#sendText(JSON.stringify(message), onTaken);
  }

  /** `onTaken` is called once the connection has passed it on. */
  #sendText(text: string, onTaken?: () => void): void {
    this.#socket.send(text, (error) => {
      this.#flow();
      if (!(error instanceof Error)) onTaken?.();
    });
    this.#flow();
  }

  #newName(): string {
    do this.#names += 1;
    while (this.#subscriptions.has(`s${this.#names}`));
    return `s${this.#names}`;
  }
}
