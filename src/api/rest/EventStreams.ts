import { decodeBlock, parseIdentifier } from '../../flow/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import { quoted } from '../../runtime/index.js';
import { ApiError } from '../view/ApiError.js';
import type { ChangeFeed } from '../feed/ChangeFeed.js';
import type { Cursor, FeedEvent, HeightEvent, RewindEvent } from '../feed/feedEvents.js';
import type { StartPoint } from '../feed/feedStart.js';
import type { HttpRequest, StreamedBody, StreamingAnswer } from '../http/types.js';
import type { HeightDocument, RewindDocument } from '../documents/changeDocuments.js';
import { list, parseHeight } from '../view/queryParameters.js';
import { rfc3339 } from '../json/scalars.js';

/** Between two signs of life, so that proxies keep a stream open on which nothing happens. */
const SIGN_OF_LIFE_MS = 15_000;
const SIGN_OF_LIFE = ': still here\n\n';
/** After which a client comes back by itself. */
const RETRY_MS = 1_000;

interface OpenStream {
  readonly body: StreamedBody;
  /** Something was written that is not taken yet. */
  isFull: boolean;
}

/** The change feed as server-sent events. */
export class EventStreams {
  readonly #feed: ChangeFeed;
  readonly #clock: Clock;
  /** Their number is bounded by the feed. */
  readonly #streams = new Set<OpenStream>();
  #timer: Timer | undefined;

  constructor(dependencies: { readonly feed: ChangeFeed; readonly clock: Clock }) {
    this.#feed = dependencies.feed;
    this.#clock = dependencies.clock;
  }

  /** Answers `/events`. Expected errors: ApiError (invalid_argument), and as `ChangeFeed.cursorAt`. */
  async answer(request: HttpRequest): Promise<StreamingAnswer> {
    const waits = waitsOf(request);
    const from = await this.#feed.cursorAt(startOf(request), { waits });
    return {
      contentType: 'text/event-stream; charset=UTF-8',
      preamble: `retry: ${RETRY_MS}\n\n`,
      stream: (body) => this.#begin({ from, waits }, body),
    };
  }

  #begin(
    { from, waits }: { readonly from: Cursor; readonly waits: boolean },
    body: StreamedBody,
  ): () => void {
    const stream: OpenStream = { body, isFull: false };
    const write = (text: string, onTaken: () => void = () => undefined): void => {
      stream.isFull = true;
      body.write(text, () => {
        stream.isFull = false;
        onTaken();
      });
    };
    const leave = this.#feed.follow(
      { kind: 'events', from, until: 'indexed', waits },
      {
        send: (event, taken) => write(eventText(event), taken),
        end: (reason) => {
          // Whoever takes nothing is told nothing.
          if (reason instanceof ApiError && reason.reason === 'overdue') {
            body.cut();
            return;
          }
          write(`event: end\ndata: ${JSON.stringify(body.explain(reason))}\n\n`);
          body.end();
        },
      },
    );
    this.#streams.add(stream);
    if (this.#streams.size === 1) this.#signLater();
    return () => {
      leave();
      this.#streams.delete(stream);
      if (this.#streams.size === 0) this.#timer?.cancel();
    };
  }

  #signLater(): void {
    this.#timer = this.#clock.setTimer(SIGN_OF_LIFE_MS, () => {
      this.#signLater();
      for (const { body, isFull } of this.#streams) if (!isFull) body.write(SIGN_OF_LIFE, () => undefined);
    });
  }
}

/** Whether to wait where heights are missing. Expected errors: ApiError (invalid_argument). */
function waitsOf({ query }: HttpRequest): boolean {
  const given = list(query['wait']);
  if (given.length === 0 || given.join() === 'false') return false;
  if (given.join() === 'true') return true;
  throw new ApiError(
    400,
    'invalid_argument',
    `invalid wait: expected true or false, got ${quoted(given.join())}`,
  );
}

/** `Last-Event-ID` before `from`: a client that comes back sends both. Expected errors: ApiError (invalid_argument). */
function startOf({ query, headers }: HttpRequest): StartPoint {
  const last = headers['last-event-id'];
  if (typeof last === 'string' && last !== '') return { lastSeen: seenOf(last) };
  const from = list(query['from']);
  const [text] = from;
  if (text === undefined) return 'next';
  const height = parseHeight(text);
  if (height !== undefined && from.length === 1) return { height };
  throw new ApiError(
    400,
    'invalid_argument',
    `invalid from: expected one decimal height, got ${quoted(from.join())}`,
  );
}

/** Expected errors: ApiError (invalid_argument). */
function seenOf(eventId: string): { height: number; blockId: ReturnType<typeof parseIdentifier> } {
  const [heightText = '', blockText] = eventId.split('-', 2);
  const height = parseHeight(heightText);
  const blockId = blockText === undefined ? undefined : parseIdentifier(blockText);
  if (height !== undefined && (blockText === undefined || blockId !== undefined)) return { height, blockId };
  const message = `invalid Last-Event-ID: expected HEIGHT-BLOCKID as the events have it, got ${quoted(eventId)}`;
  throw new ApiError(400, 'invalid_argument', message);
}

/** One event; its id is the height and the block with which the stream can be taken up again. */
function eventText(event: FeedEvent): string {
  const document = event.kind === 'height' ? heightDocument(event) : rewindDocument(event);
  const { height, block_id: blockId } = document;
  const id = blockId === null ? String(height) : `${height}-${blockId}`;
  return `id: ${id}\nevent: ${event.kind}\ndata: ${JSON.stringify(document)}\n\n`;
}

function heightDocument({ stored, isSealed }: HeightEvent): HeightDocument {
  const { block, transactionCounts } = stored;
  return {
    height: block.height,
    block_id: block.id,
    parent_id: block.parentId,
    timestamp: rfc3339(decodeBlock(block.encoded).timestamp),
    collections: block.collectionIds.map((id, index) => ({
      collection_id: id,
      transaction_count: transactionCounts[index] ?? 0,
    })),
    sealed: isSealed,
  };
}

function rewindDocument({ height, blockId }: RewindEvent): RewindDocument {
  return { height, block_id: blockId ?? null };
}
