/**
 * The limit of the requester: the block stream, which tells what to ask for, and GetFullCollectionByID as often as it
 * tells, with grpc-js and nothing around it.
 */
import type * as Flow from '../../../src/flow/index.js';
import { bareClient } from '../lib/bareClient.js';
import { built, limitOptions, LimitWatch } from '../lib/limits.js';

const { node, heights, concurrency = 32 } = limitOptions();
const { decodeSubscribeBlocksResponse, identifierBytes } = (await built('flow/index.ts')) as typeof Flow;

/** Ids that may wait for their call before the stream is paused. */
const MAX_WAITING = 1_000;

const client = bareClient(node);
const watch = new LimitWatch();
const stream = client.blocks();
let waiting: Buffer[] = [];
let next = 0;
let calls = 0;
let blocks = 0;

function onAnswer(error: Error | null): void {
  if (error !== null) throw error;
  calls -= 1;
  send();
}

function send(): void {
  while (calls < concurrency && next < waiting.length) {
    const id = waiting[next];
    next += 1;
    if (id === undefined) break;
    calls += 1;
    client.fullCollection(id, onAnswer);
  }
  if (next === waiting.length && calls === 0 && blocks === heights) watch.finish(heights);
  if (waiting.length - next < MAX_WAITING / 2 && blocks < heights && stream.isPaused()) {
    waiting = waiting.slice(next);
    next = 0;
    stream.resume();
  }
}

stream.on('data', (message: Buffer) => {
  watch.start();
  for (const id of decodeSubscribeBlocksResponse(message).collectionIds) waiting.push(identifierBytes(id));
  blocks += 1;
  if (blocks === heights || waiting.length - next >= MAX_WAITING) stream.pause();
  send();
});
