/**
 * The limit of catching up by execution data: block stream and execution-data stream into one process, every collection
 * verified, everything the store keeps put into LevelDB in synced groups; no queue, no metrics, no check but that of the
 * hashes. While a group is written the next one is verified; what has been read and not written is bounded by pausing.
 */
import type * as Flow from '../../../src/flow/index.js';
import type { FinalizedBlock } from '../../../src/flow/index.js';
import { bareClient } from '../lib/bareClient.js';
import { openGroupWriter } from '../lib/openGroupWriter.js';
import { built, limitTask, LimitWatch } from '../lib/limits.js';

const { node, heights, path } = limitTask();
const flow = (await built('flow/index.ts')) as typeof Flow;

const MAX_BLOCKS_AHEAD = 512;

const client = bareClient(node);
const watch = new LimitWatch();
const blocks = new Map<number, FinalizedBlock>();
const unmatched: Buffer[] = [];
let verifiedCount = 0;

const writer = await openGroupWriter(path, (height) => {
  if (height === heights) watch.finish(heights);
  if (!writer.isFull() && dataStream.isPaused() && unmatched.length === 0) dataStream.resume();
});
const blockStream = client.blocks();
const dataStream = client.executionData();

function take(message: Buffer): boolean {
  const data = flow.decodeExecutionDataResponse(message);
  const block = blocks.get(data.height);
  if (block === undefined) return false;
  blocks.delete(data.height);
  if (blocks.size < MAX_BLOCKS_AHEAD / 2 && blockStream.isPaused()) blockStream.resume();
  if (data.height > heights) return true;
  verifiedCount += 1;
  writer.add({ block, collections: flow.verifyBlockCollections(block, data) });
  return true;
}

blockStream.on('data', (message: Buffer) => {
  watch.start();
  const block = flow.decodeSubscribeBlocksResponse(message);
  blocks.set(block.height, block);
  if (blocks.size >= MAX_BLOCKS_AHEAD) blockStream.pause();
  while (unmatched[0] !== undefined && take(unmatched[0])) unmatched.shift();
  if (unmatched.length === 0 && dataStream.isPaused() && !writer.isFull()) dataStream.resume();
});
dataStream.on('data', (message: Buffer) => {
  if (unmatched.length > 0 || !take(message)) {
    unmatched.push(message);
    dataStream.pause();
  }
  if (writer.isFull() || verifiedCount >= heights) dataStream.pause();
});
