import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { WebSocket } from 'ws';
import type { ApiError } from '../view/ApiError.js';
import type { Query } from '../view/queryParameters.js';
import type { RestForwarding } from './RestForwarding.js';

export interface HttpRequest {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Query;
  readonly headers: IncomingHttpHeaders;
}

/** How long an answer holds true, for callers and caches that keep it. */
export interface Validity {
  /** Names the answer: the same tag, the same bytes. Without quotes. */
  readonly tag: string;
  /** True: this request will be answered so for ever. False: ask again each time, with the tag. */
  readonly isForever: boolean;
}

/** What a handler answers. `body` and what `build` makes is sent as JSON, or as it is where `contentType` is given. */
export type HttpAnswer = {
  /** Default 200. */
  readonly status?: number;
  readonly contentType?: string;
  /** Absent: nobody may keep the answer. */
  readonly validity?: Validity;
} & (
  | { readonly body: unknown }
  /** Called only when the caller does not hold the answer already. Reads nothing from the store. */
  | { readonly build: () => unknown }
);

/** What may be written to an answer without an end. */
export interface StreamedBody {
  /** Writes, and calls back once the connection has passed it on. */
  write(text: string, onTaken: () => void): void;
  /** Ends the answer behind what was written. */
  end(): void;
  /** Ends the connection at once. */
  cut(): void;
  /** The body with which a refusal for this reason is answered; what is no expected error is a bug. */
  explain(reason: unknown): unknown;
}

/** An answer that goes on until its caller leaves. */
export interface StreamingAnswer {
  readonly contentType: string;
  /** Sent with the headers. */
  readonly preamble: string;
  /**
   * Begins, and returns what is to be called when the caller has gone. Nothing may be written before it returns. Not called for
   * HEAD. Expected errors: ApiError.
   */
  readonly stream: (body: StreamedBody) => () => void;
}

/** Throws ApiError or StorageError for what is expected; anything else it throws is a bug. */
export type HttpHandler = (
  request: HttpRequest,
) => HttpAnswer | StreamingAnswer | Promise<HttpAnswer | StreamingAnswer>;

export interface HttpRoute {
  /** `{name}` stands for a segment. */
  readonly path: string;
  readonly handle: HttpHandler;
  /** True: one answer may be as large as a whole block; few are made at a time. */
  readonly isBulk?: boolean;
  /** True: the answer goes on until its caller leaves. */
  readonly isStream?: boolean;
}

/** What a server does for one of its WebSocket connections. */
export interface WebSocketCare {
  /** What a caller is told of an error; what is no expected one is a bug. */
  readonly explain: (error: unknown) => ApiError;
  /** Counts a request of this address: 0 when it may pass, else the seconds after which the next one may. */
  readonly waitSeconds: () => number;
}

/** The path at which a server speaks WebSocket. */
export interface WebSocketRoute {
  readonly path: string;
  /** Of one message of a client. */
  readonly maxMessageBytes: number;
  /** Has a connection from here on. */
  accept(socket: WebSocket, request: IncomingMessage, care: WebSocketCare): void;
  /** Says goodbye to every client. */
  close(): void;
  /** Ends every connection at once. */
  cut(): void;
}

/** What a server answers. */
export interface HttpRoutes {
  readonly routes: readonly HttpRoute[];
  /** What to say of a path that has no route. */
  readonly unknownPath: (path: string) => ApiError;
  /** Takes what has no route, and what a handler has no answer to. */
  readonly forwarding?: RestForwarding | undefined;
  /** Left out: WebSocket is not spoken. */
  readonly webSocket?: WebSocketRoute | undefined;
}
