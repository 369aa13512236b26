import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Writable } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Cost } from '../guard/TokenGuard.js';
import type { ListeningServer } from '../server/ListeningServer.js';
import type { ApiError } from '../view/ApiError.js';
import type { Query } from '../view/queryParameters.js';

export const JSON_TYPE = 'application/json; charset=UTF-8';

export interface HttpRequest {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Query;
  readonly headers: IncomingHttpHeaders;
  /** A reference to the root of the server, relative to the requested URL: it holds behind a proxy that serves it below a path. */
  readonly root: string;
}

/** What a handler returns. The body is sent as JSON, or unchanged if `contentType` is given. */
export interface HttpResponse {
  /** Default 200. */
  readonly status?: number;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
  /**
   * How long callers and caches may keep it. `forever`: the response to this request never changes. `revalidated`: they ask each
   * time whether it has changed. Absent: it may not be cached.
   */
  readonly kept?: 'forever' | 'revalidated';
}

/** A response that lasts until its caller leaves. */
export interface StreamingResponse {
  readonly contentType: string;
  /** Sent with the headers. */
  readonly preamble: string;
  /**
   * Begins; returns a function to call when the caller has left. Nothing may be written before it returns. Not called
   * for HEAD. `explain` gives the refusal for a reason; an unexpected one is a bug. Expected errors: ApiError.
   */
  readonly stream: (to: Writable, explain: (reason: unknown) => ApiError) => () => void;
}

export interface HttpRoute {
  /** `{name}` matches a segment. */
  readonly path: string;
  /** Throws ApiError or StorageError for what is expected; anything else it throws is a bug. */
  readonly handle: (
    request: HttpRequest,
  ) => HttpResponse | StreamingResponse | Promise<HttpResponse | StreamingResponse>;
  /**
   * `bulk`: one response may be as large as a whole block; few are built at a time. `stream`: it lasts until its caller leaves.
   * `open`: served without a token, because it is the same in every installation. `file`: open, and kept in memory; requests for
   * it do not count against the rate of their address. Absent: none of these.
   */
  readonly kind?: 'bulk' | 'stream' | 'open' | 'file';
}

export function costOf({ kind }: HttpRoute): Cost {
  if (kind === undefined) return 'cheap';
  return kind === 'bulk' || kind === 'stream' ? 'expensive' : 'open';
}

/** The path at which a server speaks WebSocket. */
export interface WebSocketRoute {
  readonly path: string;
  /** Limit of a client's message. */
  readonly maxMessageBytes: number;
  /** Open at once. */
  readonly maxConnections: number;
  /** Takes over a connection, until the server closes it, and counts its messages there. */
  readonly accept: (socket: WebSocket, handshake: IncomingMessage, server: ListeningServer) => void;
}

/** From RFC 6455, and its registry. */
export const closeCodes = {
  done: 1000,
  goingAway: 1001,
  comeBack: 1012,
  tryAgainLater: 1013,
  unauthorized: 3000,
} as const;
