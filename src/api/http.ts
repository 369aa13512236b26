import type { Query } from './query.js';

export interface HttpRequest {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Query;
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

/** Throws ApiError or StorageError for what is expected; anything else it throws is a bug. */
export type HttpHandler = (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer>;

export interface HttpRoute {
  /** `{name}` stands for a segment. */
  readonly path: string;
  readonly handle: HttpHandler;
  /** True: one answer may be as large as a whole block; few are made at a time. */
  readonly isBulk?: boolean;
}
