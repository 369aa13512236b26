import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { connections } from '../server/connections.js';
import type { ConnectionsDependencies, ConnectionsOptions } from '../server/connections.js';
import { ApiError, busy } from '../view/ApiError.js';

/** Requests that may wait on one connection behind the current one. */
const MAX_PIPELINED = 16;
/** How long written data may wait for the caller. It also bounds how long a caller may take to read one response. */
const UNREAD_LIMIT_MS = 60_000;
/** The share of the connections that may last: the others are for requests that are answered at once. */
const MAX_LASTING_SHARE = 0.75;
/** Interval of the check of all connections. */
const LOOK_EVERY_MS = 10_000;

/**
 * The connections of an HTTP port. Cuts those whose callers do not take their responses, or take them a few bytes at a time:
 * each holds a response in memory, and Node.js itself cuts only those on which nothing moves at all.
 */
export function httpConnections(options: ConnectionsOptions, dependencies: ConnectionsDependencies) {
  const { server } = options;
  const all = connections<ServerResponse>(options, dependencies, {
    lookEveryMs: LOOK_EVERY_MS,
    // A chunk counts as sent once the kernel has taken all of it.
    bytesOf: ({ bytesWritten, writableLength }) =>
      writableLength === 0 ? undefined : bytesWritten - writableLength,
    recordOf: (connection) => {
      // Node.js notifies only the response whose turn it is.
      connection.tcp.once('close', () => {
        for (const response of connection.underWay) if (response.socket === null) response.emit('close');
      });
      return connection;
    },
    look: (_connection, unmovedMs) => (unmovedMs >= UNREAD_LIMIT_MS ? 'unread' : undefined),
  });
  let lasting = 0;
  // A caller that half-closes after its request (`nc -N`) still gets the answer, which ends the connection. Until the handshake
  // is over, half-closing ends it at once: so do balancers that only check whether the port is open.
  Object.assign(server, { httpAllowHalfOpen: true });
  server.on('secureConnection', (socket: Socket) => (socket.allowHalfOpen = true));
  const responsesOn = (socket: Socket): readonly ServerResponse[] => [...(all.of(socket)?.underWay ?? [])];
  const begun = ({ socket }: IncomingMessage, response: ServerResponse): void => {
    const connection = all.of(socket);
    if (connection !== undefined) response.once('close', all.begun(connection, response));
  };
  // Before any other listener asks for its refusal.
  server.prependListener('request', begun);
  // Answers like Node.js, but tracks the response.
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    begun(request, response);
    response.writeHead(417).end();
  });

  return {
    ...all,

    /** Responses in progress, oldest first. */
    responsesOn,

    /** A stream or a WebSocket begins, with which the connection ends. Returns its refusal when too many last already. */
    hold: (socket: Socket): ApiError | undefined => {
      const maxLasting = Math.ceil(all.limit() * MAX_LASTING_SHARE);
      if (lasting >= maxLasting)
        return busy(`at most ${maxLasting} streams and WebSockets may be open at once; retry`);
      const connection = all.of(socket);
      if (connection === undefined) return undefined;
      all.keep(connection);
      lasting += 1;
      connection.tcp.once('close', () => (lasting -= 1));
      return undefined;
    },

    /** The refusal of a request that has too many before it on its connection: more may have come behind it by now. */
    refusalOf: (socket: Socket, response: ServerResponse): ApiError | undefined => {
      if (responsesOn(socket).indexOf(response) <= MAX_PIPELINED) return undefined;
      const message = `at most ${MAX_PIPELINED} requests may wait on one connection; read the responses before you send more`;
      return new ApiError(429, 'rate_limited', message);
    },

    /** Whether a response on the connection has begun, and is not all sent. */
    isAnswering: (socket: Socket): boolean => responsesOn(socket).some(({ headersSent }) => headersSent),
  };
}
