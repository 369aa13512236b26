import { parseIdentifier } from '../../flow/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import { every, quoted } from '../../runtime/index.js';
import { heightDocument } from '../documents/changeDocuments.js';
import type { ChangeFeed } from '../feed/ChangeFeed.js';
import type { FeedEvent } from '../feed/feedEvents.js';
import type { StartPoint } from '../feed/feedStart.js';
import type { Following } from '../feed/following.js';
import type { HttpRequest, StreamedBody, StreamingResponse } from '../http/types.js';
import { ApiError, invalidArgument } from '../view/ApiError.js';
import { list, parseHeight, wantsProven } from '../view/queryParameters.js';

/** Interval of the comments that keep proxies from closing a quiet stream. */
const KEEP_ALIVE_MS = 15_000;
const KEEP_ALIVE = ': still here\n\n';
/** Delay after which a client reconnects by itself. */
const RETRY_MS = 1_000;

interface OpenStream {
  readonly body: StreamedBody;
  /** Written data is not taken yet. */
  isFull: boolean;
}

/** The change feed as server-sent events. */
export class EventStreams {
  readonly #feed: ChangeFeed;
  readonly #clock: Clock;
  /** The feed bounds their number. */
  readonly #streams = new Set<OpenStream>();
  #timer: Timer | undefined;

  constructor(dependencies: { readonly feed: ChangeFeed; readonly clock: Clock }) {
    this.#feed = dependencies.feed;
    this.#clock = dependencies.clock;
  }

  /** Serves `/events`. Expected errors: ApiError (invalid_argument), and those of `ChangeFeed.cursorAt`. */
  async open(request: HttpRequest): Promise<StreamingResponse> {
    const waits = waitsOf(request);
    const until = wantsProven(request.query) ? 'proven' : 'indexed';
    const from = await this.#feed.cursorAt(startOf(request), { waits, until });
    return {
      contentType: 'text/event-stream; charset=UTF-8',
      preamble: `retry: ${RETRY_MS}\n\n`,
      stream: (body) => this.#begin({ from, waits, until }, body),
    };
  }

  #begin(following: Pick<Following, 'from' | 'until' | 'waits'>, body: StreamedBody): () => void {
    const stream: OpenStream = { body, isFull: false };
    const write = (text: string, onTaken: () => void = () => undefined): void => {
      stream.isFull = true;
      body.write(text, () => {
        stream.isFull = false;
        onTaken();
      });
    };
    const leave = this.#feed.follow(
      { kind: 'events', ...following },
      {
        send: (event, taken) => write(eventText(event), taken),
        end: (reason) => {
          // A caller that takes nothing would not take this either.
          if (reason instanceof ApiError && reason.reason === 'overdue') {
            body.cut();
            return;
          }
          write(`event: end\ndata: ${JSON.stringify(body.explain(reason).body())}\n\n`);
          body.end();
        },
      },
    );
    this.#streams.add(stream);
    if (this.#streams.size === 1) {
      this.#timer = every(this.#clock, KEEP_ALIVE_MS, () => this.#keepAlive());
    }
    return () => {
      leave();
      this.#streams.delete(stream);
      if (this.#streams.size === 0) this.#timer?.cancel();
    };
  }

  #keepAlive(): void {
    for (const { body, isFull } of this.#streams) if (!isFull) body.write(KEEP_ALIVE, () => undefined);
  }
}

/** Whether to wait at missing heights. Expected errors: ApiError (invalid_argument). */
function waitsOf({ query }: HttpRequest): boolean {
  const given = list(query['wait']).join();
  if (given === 'true') return true;
  if (given === '' || given === 'false') return false;
  throw invalidArgument(`invalid wait: expected true or false, got ${quoted(given)}`);
}

/** `Last-Event-ID` before `from`: a returning client sends both. Expected errors: ApiError (invalid_argument). */
function startOf({ query, headers }: HttpRequest): StartPoint {
  const last = headers['last-event-id'];
  if (typeof last === 'string' && last !== '') return { lastSeen: seenOf(last) };
  const from = list(query['from']);
  const [text] = from;
  if (text === undefined) return 'next';
  const height = parseHeight(text);
  if (height !== undefined && from.length === 1) return { height };
  throw invalidArgument(`invalid from: expected one decimal height, got ${quoted(from.join())}`);
}

/** Expected errors: ApiError (invalid_argument). */
function seenOf(eventId: string): { height: number; blockId: ReturnType<typeof parseIdentifier> } {
  const [heightText = '', blockText] = eventId.split('-', 2);
  const height = parseHeight(heightText);
  const blockId = blockText === undefined ? undefined : parseIdentifier(blockText);
  if (height !== undefined && (blockText === undefined || blockId !== undefined)) return { height, blockId };
  throw invalidArgument(
    `invalid Last-Event-ID: expected HEIGHT-BLOCKID as in the events, got ${quoted(eventId)}`,
  );
}

/** One event. Its id, height and block, is where the stream can be resumed. */
function eventText(event: FeedEvent): string {
  const document =
    event.kind === 'height'
      ? heightDocument(event)
      : { height: event.height, block_id: event.blockId ?? null };
  const { height, block_id: blockId } = document;
  const id = blockId === null ? String(height) : `${height}-${blockId}`;
  return `id: ${id}\nevent: ${event.kind}\ndata: ${JSON.stringify(document)}\n\n`;
}
