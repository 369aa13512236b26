import { Client, credentials } from '@grpc/grpc-js';
import type { ChannelCredentials, ClientOptions } from '@grpc/grpc-js';
import { messageOf, OperatorError } from '../../../runtime/index.js';
import { proxyFor } from './proxy.js';
import { grpcTarget } from '../endpoint.js';
import type { Endpoint } from '../endpoint.js';

/** Bounds of the pauses between attempts to connect. */
const RECONNECT_MIN_MS = 250;
const RECONNECT_MAX_MS = 2_000;
/** Nodes close connections that ping more than once in five minutes ("too_many_pings"). */
const KEEPALIVE_MS = 330_000;
const KEEPALIVE_TIMEOUT_MS = 20_000;

/** A separate connection to one node. It connects when first used, and again after it was lost. */
export function openClient(options: {
  readonly endpoint: Endpoint;
  readonly maxMessageBytes: number;
  readonly userAgent: string;
  /** Bytes of one stream that may be in transit, or buffered here for a paused reader. */
  readonly windowBytes: number;
}): Client {
  const { endpoint, maxMessageBytes, userAgent, windowBytes } = options;
  const clientOptions: ClientOptions = {
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc-node.flow_control_window': windowBytes,
    'grpc.initial_reconnect_backoff_ms': RECONNECT_MIN_MS,
    'grpc.max_reconnect_backoff_ms': RECONNECT_MAX_MS,
    'grpc.keepalive_time_ms': KEEPALIVE_MS,
    'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
    'grpc.primary_user_agent': userAgent,
    // A connection of its own: a rebuilt channel must not get the connection that it replaces.
    'grpc.use_local_subchannel_pool': 1,
    // Callers decide on retries; no extra DNS lookup for a service configuration.
    'grpc.enable_retries': 0,
    'grpc.service_config_disable_resolution': 1,
    'grpc.enable_http_proxy': proxyFor(endpoint) === undefined ? 0 : 1,
  };
  const secrecy = endpoint.tls ? tlsCredentials() : credentials.createInsecure();
  return new Client(grpcTarget(endpoint), secrecy, clientOptions);
}

/** grpc-js reads the file of authorities here. */
function tlsCredentials(): ChannelCredentials {
  try {
    return credentials.createSsl();
  } catch (error) {
    throw new OperatorError(
      'configuration',
      `The file that GRPC_DEFAULT_SSL_ROOTS_FILE_PATH names cannot be read (${messageOf(error)}). Name a file in PEM, or unset the variable.`,
    );
  }
}
