/**
 * The limit of catching up by requests: the block stream, GetFullCollectionByID for what it names, every collection verified,
 * everything the store keeps put into LevelDB in synced groups; no queue, no metrics, no choice of nodes, no retry.
 */
import type * as Flow from '../../../src/flow/index.js';
import type { FinalizedBlock, Identifier, VerifiedCollection } from '../../../src/flow/index.js';
import { bareClient } from '../lib/bareClient.js';
import { openGroupWriter } from '../lib/openGroupWriter.js';
import { built, limitTask, LimitWatch } from '../lib/limits.js';

const { node, heights, path } = limitTask();
const flow = (await built('flow/index.ts')) as typeof Flow;

/** Calls under way at once: measured to be the best of 16, 32 and 64. */
const CONCURRENCY = 32;
/** Blocks whose collections are asked for, or wait to be; the stream is paused then. */
const MAX_BLOCKS_AHEAD = 256;

interface Gathering {
  readonly block: FinalizedBlock;
  readonly collections: VerifiedCollection[];
  missing: number;
}

const client = bareClient(node);
const watch = new LimitWatch();
let gatherings: Gathering[] = [];
const wanted: { readonly id: Identifier; readonly gathering: Gathering; readonly place: number }[] = [];
let calls = 0;
let blocks = 0;

const onWritten = (height: number): void => {
  if (height === heights) watch.finish(heights);
  resume();
};
const writer = await openGroupWriter(path, onWritten);
const stream = client.blocks();

function resume(): void {
  const hasRoom = gatherings.length < MAX_BLOCKS_AHEAD / 2 && !writer.isFull();
  if (hasRoom && blocks < heights && stream.isPaused()) stream.resume();
}

function send(): void {
  while (calls < CONCURRENCY) {
    const next = wanted.shift();
    if (next === undefined) return;
    const { id, gathering, place } = next;
    calls += 1;
    client.read('collection', flow.identifierBytes(id), (error, message) => {
      if (error !== null || message === undefined) throw error ?? new Error('no answer');
      calls -= 1;
      send();
      const bodies = flow.splitCollection(message);
      gathering.collections[place] = flow.verifyCollection(id, bodies);
      gathering.missing -= 1;
      if (gathering.missing === 0) store();
    });
  }
}

function store(): void {
  const open = gatherings.findIndex(({ missing }) => missing > 0);
  const complete = open === -1 ? gatherings : gatherings.slice(0, open);
  gatherings = open === -1 ? [] : gatherings.slice(open);
  for (const { block, collections } of complete) writer.add({ block, collections });
  resume();
}

stream.on('data', (message: Buffer) => {
  watch.start();
  const block = flow.decodeSubscribeBlocksResponse(message);
  const gathering: Gathering = { block, collections: [], missing: block.collectionIds.length };
  gatherings.push(gathering);
  for (const [place, id] of block.collectionIds.entries()) wanted.push({ id, gathering, place });
  blocks += 1;
  if (blocks === heights || gatherings.length >= MAX_BLOCKS_AHEAD) stream.pause();
  send();
});
