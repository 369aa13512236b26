import type { UnaryMethod } from '../../types.js';
import type { NodeEvents } from '../ports.js';
import type { Channel, StreamCall, StreamSink } from './RpcChannel.js';

/** After this many consecutive calls that lost their connection, a method gets a connection of its own. */
const BREAKS_BEFORE_APART = 2;
/** After this many missed deadlines, without an answer between them, the channel counts as dead and is replaced. */
const DEADLINES_BEFORE_RECONNECT = 3;

/**
 * The connections to one node: one for all unary calls, one for each stream, and one for each method whose calls keep
 * breaking their connection. A connection on which nothing is answered any more is replaced.
 */
export class NodeConnections {
  readonly #openChannel: () => Channel;
  readonly #events: Pick<NodeEvents, 'onOutage' | 'onReconnect'>;
  readonly #shared: Channel;
  /** Methods whose latest calls lost their connection, perhaps because a proxy breaks it over them. */
  readonly #breaking = new Map<UnaryMethod, { breaks: number; channel?: Channel }>();
  /** Consecutive missed deadlines on the present connection. */
  #missedDeadlines = 0;
  /** Consecutive new connections on which nothing was answered either. */
  #reconnects = 0;
  #isClosed = false;

  constructor(dependencies: { readonly openChannel: () => Channel; readonly events: NodeEvents }) {
    this.#openChannel = dependencies.openChannel;
    this.#events = dependencies.events;
    this.#shared = this.#openChannel();
  }

  /** The channel for a unary call. */
  channelFor(method: UnaryMethod): Channel {
    return this.#breaking.get(method)?.channel ?? this.#shared;
  }

  /**
   * A stream on a connection of its own. Otherwise a node or proxy that breaks the connection because of one call would
   * break every stream, and a stream that we do not read would use up the window of all.
   */
  openStream(path: string, request: Buffer, sink: StreamSink): StreamCall {
    if (this.#isClosed) return this.#shared.stream(path, request, sink);
    const channel = this.#openChannel();
    try {
      return channel.stream(path, request, sink);
    } finally {
      // No further calls use it: it closes with this one.
      channel.close();
    }
  }

  /** The node answered a call that was sent on a connection of this generation: its method shares it again. */
  answered(method: UnaryMethod, generation: object): void {
    this.#breaking.get(method)?.channel?.close();
    this.#breaking.delete(method);
    if (generation !== this.#shared.generation) return;
    this.#missedDeadlines = 0;
    this.#reconnects = 0;
  }

  /** A method whose calls keep losing their connection gets one of its own, so that it breaks no other call. */
  lost(method: UnaryMethod): void {
    if (this.#isClosed) return;
    const breaking = this.#breaking.get(method) ?? { breaks: 0 };
    this.#breaking.set(method, breaking);
    breaking.breaks += 1;
    if (breaking.breaks >= BREAKS_BEFORE_APART) breaking.channel ??= this.#openChannel();
  }

  /** A call got no answer in time. A call on an older connection says nothing about the present one. */
  missedDeadline(generation: object): void {
    if (generation !== this.#shared.generation) return;
    this.#missedDeadlines += 1;
    if (this.#missedDeadlines < DEADLINES_BEFORE_RECONNECT) return;
    this.#missedDeadlines = 0;
    this.#shared.reconnect();
    this.#reconnects += 1;
    this.#events.onOutage?.();
    if (this.#reconnects === 1) this.#events.onReconnect?.();
  }

  /** Further calls fail; calls under way end by their signals. */
  close(): void {
    this.#isClosed = true;
    this.#shared.close();
    for (const { channel } of this.#breaking.values()) channel?.close();
    this.#breaking.clear();
  }
}
