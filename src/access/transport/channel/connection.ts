import { isIP } from 'node:net';
import { Channel, connectivityState, credentials, experimental, setLogger } from '@grpc/grpc-js';
import type { ChannelCredentials, ChannelOptions as LibraryOptions } from '@grpc/grpc-js';
import type { Logger } from '../../../observability/index.js';
import { messageOf, OperatorError, type Clock } from '../../../runtime/index.js';
import { proxyFor } from './proxy.js';
import type { Endpoint } from '../endpoint.js';

/** Bounds of the pauses between attempts to connect. */
const RECONNECT_MIN_MS = 250;
const RECONNECT_MAX_MS = 2_000;
/** While connecting fails, the name is looked up again this often: the node may have moved. The default is 30 s. */
const LOOKED_UP_AGAIN_MS = 2_000;
/** Nodes close connections that ping more than once in five minutes ("too_many_pings"). */
const KEEPALIVE_MS = 330_000;
const KEEPALIVE_TIMEOUT_MS = 20_000;
/** A connection without calls is closed after this time: routers and balancers later drop it silently. */
const IDLE_MS = 60_000;
/** How many calls may be cancelled at once after a quiet time, and how many per second in the long run. */
const CANCELS = { burst: 500, perSecond: 20 };
/** Wait before ending streams: if the connection broke, they have ended by then, each with its own status. */
const DRAIN_AFTER_MS = 1_000;
const UNANSWERED_MS = 1_000;
const UNANSWERED_BEFORE_TURN = 3;
/** Longest text of one message of the gRPC library. */
const MAX_TEXT_CHARACTERS = 500;

export interface ChannelOptions {
  readonly endpoint: Endpoint;
  /** Larger answers fail with RESOURCE_EXHAUSTED and a text that names the size. */
  readonly maxMessageBytes: number;
  readonly userAgent: string;
  /** How far beyond the first address that the system gives for the name to begin. Default: 0. */
  readonly turn?: number;
}

export type Connection = Readonly<ReturnType<typeof openConnection>>;

/** A separate connection to one node. It connects when first used, and again after it was lost. */
export function openConnection(
  options: ChannelOptions & {
    /** Bytes of one stream that may be in transit, or buffered here for a paused reader. */
    readonly windowBytes: number;
  },
  clock: Clock,
) {
  const { endpoint, maxMessageBytes, turn = 0, userAgent, windowBytes } = options;
  const channelOptions: LibraryOptions = {
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc-node.flow_control_window': windowBytes,
    'grpc.initial_reconnect_backoff_ms': RECONNECT_MIN_MS,
    'grpc.max_reconnect_backoff_ms': RECONNECT_MAX_MS,
    'grpc.dns_min_time_between_resolutions_ms': LOOKED_UP_AGAIN_MS,
    'grpc.keepalive_time_ms': KEEPALIVE_MS,
    'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
    'grpc.client_idle_timeout_ms': IDLE_MS,
    'grpc.primary_user_agent': userAgent,
    // A separate connection: a rebuilt channel must not get the connection that it replaces.
    'grpc.use_local_subchannel_pool': 1,
    // Callers decide on retries; no extra DNS lookup for a service configuration.
    'grpc.enable_retries': 0,
    'grpc.service_config_disable_resolution': 1,
    'grpc.enable_http_proxy': proxyFor(endpoint) === undefined ? 0 : 1,
  };
  experimental.registerResolver('turned', TurnedAddresses);
  const channel = new Channel(`turned://${turn}/${endpoint.name}`, secrecyOf(endpoint), channelOptions);
  return {
    channel,
    mayCancel: cancelBudget(clock),
    /** Calls back where a stream has to end; see `drainWatch`. */
    onDrain: (end: () => void) => drainWatch(channel, clock, end),
  };
}

type ResolverOf = ConstructorParameters<Parameters<typeof experimental.registerResolver>[1]>;

/**
 * Rotates the addresses of a name: grpc-js stays with the first one that accepts the connection, even if nothing behind
 * it answers any longer.
 */
class TurnedAddresses implements experimental.Resolver {
  readonly #names: experimental.Resolver;

  constructor({ authority, path }: ResolverOf[0], listener: ResolverOf[1], options: ResolverOf[2]) {
    const rotate: typeof listener = (found, ...more) => {
      if (!found.ok) return listener(found, ...more);
      const first = Number(authority) % (found.value.length || 1);
      const turned = [...found.value.slice(first), ...found.value.slice(0, first)];
      return listener(experimental.statusOrFromValue(turned), ...more);
    };
    this.#names = experimental.createResolver({ scheme: 'dns', path }, rotate, options);
  }

  /** The name that a certificate must have. A full name's final dot is for DNS alone: servers refuse it (RFC 6066). */
  static getDefaultAuthority({ path }: ResolverOf[0]): string {
    return path.replace(/\.(?=:\d+$)/, '');
  }

  updateResolution(): void {
    this.#names.updateResolution();
  }

  destroy(): void {
    this.#names.destroy();
  }
}

export type AddressTurns = ReturnType<typeof addressTurns>;

/** Calls back with the next turn after several unanswered calls in a row, if nothing else was answered meanwhile. */
export function addressTurns(clock: Clock, onTurn: (turn: number) => void) {
  let answeredAtMs = -Infinity;
  let unanswered = 0;
  let turn = 0;
  return {
    /** Which address the next connection tries first; see `ChannelOptions`. */
    get turn(): number {
      return turn;
    },
    /** The last connection delivered nothing: the next one goes to another address. */
    next: (): void => {
      turn += 1;
    },
    /** The node has answered something. */
    answered: (): void => {
      answeredAtMs = clock.monotonic();
      unanswered = 0;
    },
    /** A call has ended without an answer. If its caller gave up before `leastMs`, that says nothing about the node. */
    unanswered: (begunAtMs: number, leastMs = UNANSWERED_MS): void => {
      if (answeredAtMs > begunAtMs || clock.monotonic() - begunAtMs < leastMs) return;
      unanswered += 1;
      if (unanswered < UNANSWERED_BEFORE_TURN) return;
      unanswered = 0;
      turn += 1;
      onTurn(turn);
    },
  };
}

/** grpc-js reads the file of authorities here. */
function secrecyOf({ host, tls }: Endpoint): ChannelCredentials {
  let secrecy: ChannelCredentials;
  try {
    secrecy = tls ? credentials.createSsl() : credentials.createInsecure();
  } catch (error) {
    const why = `cannot be read (${messageOf(error)}). Name a file in PEM, or unset the variable.`;
    throw new OperatorError('configuration', `The file that GRPC_DEFAULT_SSL_ROOTS_FILE_PATH names ${why}`);
  }
  const connectorOf = secrecy._createSecureConnector.bind(secrecy);
  const patched: typeof connectorOf = (...target) => {
    const connector = connectorOf(...target);
    const options = (connector as { connectionOptions?: { servername?: string } }).connectionOptions;
    // grpc-js sends the node the requested name (SNI), even where that is an address: RFC 6066 forbids it, and
    // Node.js 26 refuses to connect. So an address is checked against the certificate only.
    if (isIP(host) !== 0) delete options?.servername;
    // A channel that is closed while it waits to reconnect would still connect, and keep the unused connection.
    const closed = () => Promise.reject(new Error('the channel is closed'));
    return Object.assign(connector, {
      destroy: () => void Object.assign(connector, { waitForReady: closed }),
    });
  };
  return Object.assign(secrecy, { _createSecureConnector: patched });
}

/**
 * Whether one more call may be cancelled; counts it. Since the rapid-reset attacks on HTTP/2 (CVE-2023-44487),
 * servers and proxies close connections on which streams are reset too fast (Node.js: 1,000 at once, 33 per second), and
 * every call on them is lost. A call beyond that is left to run out, without a caller that waits.
 */
function cancelBudget(clock: Clock): () => boolean {
  let left = CANCELS.burst;
  let refilledAtMs = clock.monotonic();
  return () => {
    const nowMs = clock.monotonic();
    left = Math.min(CANCELS.burst, left + ((nowMs - refilledAtMs) / 1_000) * CANCELS.perSecond);
    refilledAtMs = nowMs;
    if (left < 1) return false;
    left -= 1;
    return true;
  };
}

/**
 * A node that shuts down gracefully sends GOAWAY and waits for open calls. Streams would delay it for ever, so this ends
 * one. grpc-js reports a GOAWAY only as a connection that is no longer ready, while the calls on it continue. Returns a
 * function to call when the stream is over.
 */
function drainWatch(channel: Channel, clock: Clock, end: () => void): () => void {
  let isOver = false;
  const watch = (): void => {
    const state = channel.getConnectivityState(false);
    if (state === connectivityState.SHUTDOWN) return;
    channel.watchConnectivityState(state, Infinity, () => {
      if (isOver) return;
      if (state === connectivityState.READY) clock.setTimer(DRAIN_AFTER_MS, () => isOver || end());
      watch();
    });
  };
  watch();
  return () => (isOver = true);
}

/**
 * By default the gRPC library writes to standard error, including text from callers and nodes, which could flood it or
 * forge lines; Node.js writes its warnings there too, between lines of JSON. This makes both fields of our log, those
 * for developers at the debug level. It applies to the whole thread: call it in the composition root only.
 */
export function redirectLibraryLogs({ logger }: { readonly logger: Pick<Logger, 'debug' | 'warn'> }): void {
  process.removeAllListeners('warning').on('warning', ({ name, message: text }) => {
    logger[name === 'DeprecationWarning' ? 'debug' : 'warn']({ name, text }, 'warning of Node.js');
  });
  const note = (...words: readonly unknown[]): void => {
    const text = words.map(String).join(' ').slice(0, MAX_TEXT_CHARACTERS);
    logger.debug({ text }, 'message of the gRPC library');
  };
  setLogger({ error: note, info: note, debug: note });
}
