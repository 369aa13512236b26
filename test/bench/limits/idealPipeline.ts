/**
 * The limit of catching up by execution data: block stream and execution-data stream into one process, every collection
 * verified, everything the store keeps put into LevelDB in synced groups; no queue, no metrics, no check but that of the
 * hashes. While a group is written the next one is verified; what has been read and not written is bounded by pausing.
 */
import type * as Flow from '../../../src/flow/index.js';
import { bareClient } from '../lib/bareClient.js';
import { built, limitOptions, LimitWatch } from '../lib/limits.js';
import { progressKeyValue, StoreOnlyWriter } from '../lib/storeOnly.js';
import type { BlockEntry } from '../../../src/storage/index.js';
import type { FinalizedBlock } from '../../../src/flow/index.js';

interface EntryWriter {
  put(entry: BlockEntry, put: (key: Buffer, value: Buffer) => void): void;
}

const { node, heights, path } = limitOptions();
const flow = (await built('flow/index.js')) as typeof Flow;
// The store's own way of putting entries together: measured to be the quickest known.
const { BlockEntryWriter } = (await built('storage/blockEntries.js')) as {
  readonly BlockEntryWriter: new () => EntryWriter;
};

/** Blocks of one group, and blocks that may wait for the next ones. */
const GROUP_BLOCKS = 64;
const MAX_VERIFIED = 128;
const MAX_BLOCKS_AHEAD = 512;

const client = bareClient(node);
const watch = new LimitWatch();
const writer = await StoreOnlyWriter.open({ path, sync: true });
const entryWriter = new BlockEntryWriter();
const blocks = new Map<number, FinalizedBlock>();
const unmatched: Buffer[] = [];
let verified: BlockEntry[] = [];
let verifiedCount = 0;
let writing = false;

const blockStream = client.blocks();
const dataStream = client.executionData();

function put(key: Buffer, value: Buffer): void {
  writer.put(key, value);
}

async function writeGroups(): Promise<void> {
  writing = true;
  while (verified.length > 0) {
    const group = verified.slice(0, GROUP_BLOCKS);
    verified = verified.slice(GROUP_BLOCKS);
    for (const entry of group) entryWriter.put(entry, put);
    const latest = group.at(-1)?.block.height ?? 0;
    put(...progressKeyValue(latest));
    await writer.write();
    if (latest === heights) watch.finish(heights);
    if (verified.length < MAX_VERIFIED && dataStream.isPaused() && unmatched.length === 0)
      dataStream.resume();
  }
  writing = false;
}

function take(message: Buffer): boolean {
  const data = flow.decodeExecutionDataResponse(message);
  const block = blocks.get(data.height);
  if (block === undefined) return false;
  blocks.delete(data.height);
  if (blocks.size < MAX_BLOCKS_AHEAD / 2 && blockStream.isPaused()) blockStream.resume();
  if (data.height > heights) return true;
  verified.push({ block, collections: flow.verifyBlockCollections(block, data) });
  verifiedCount += 1;
  if (!writing) void writeGroups();
  return true;
}

blockStream.on('data', (message: Buffer) => {
  watch.start();
  const block = flow.decodeSubscribeBlocksResponse(message);
  blocks.set(block.height, block);
  if (blocks.size >= MAX_BLOCKS_AHEAD) blockStream.pause();
  while (unmatched[0] !== undefined && take(unmatched[0])) unmatched.shift();
  if (unmatched.length === 0 && dataStream.isPaused() && verified.length < MAX_VERIFIED) dataStream.resume();
});
dataStream.on('data', (message: Buffer) => {
  if (unmatched.length > 0 || !take(message)) {
    unmatched.push(message);
    dataStream.pause();
  }
  if (verified.length >= MAX_VERIFIED || verifiedCount >= heights) dataStream.pause();
});
