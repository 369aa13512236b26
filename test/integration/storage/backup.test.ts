import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ChainGenerator } from '../../../src/devnet/index.js';
import { systemClock } from '../../../src/runtime/index.js';
import { backupStore, LevelIndexStore, SCHEMA_VERSION, verifyStore } from '../../../src/storage/index.js';
import { blocksOf, entryOf } from '../../support/chainReference.js';
import { scratchDirectory } from '../../support/program.js';
import { smallFileSystem } from '../../support/smallFileSystem.js';
import { RecordingLogger } from '../../support/recordingLogger.js';
import { storePath } from '../../support/storeDump.js';
import { fault } from '../../support/refusal.js';

const HEIGHTS = 250;
const COPIES = 5;
/** So small that tables are written and merged all the time. */
const RESTLESS = { writeBufferBytes: 64 * 1024, maxFileBytes: 1024 * 1024 };

describe('backupStore', () => {
  const chain = new ChainGenerator({ seed: 5, rootHeight: 0, profile: 'dense' });
  const { chainId } = chain;
  const dependencies = { logger: new RecordingLogger(), clock: systemClock };

  const begun = async () => {
    const path = storePath(scratchDirectory());
    const store = await LevelIndexStore.open({ path, chainId, tuning: RESTLESS }, dependencies);
    await store.initialise({
      ...{ schemaVersion: SCHEMA_VERSION, createdBy: 'a test', sporks: [], chainId, firstHeight: 0 },
    });
    return { path, store };
  };

  it('holds every block that was durable when it began, while tables are merged away under it', async () => {
    const blocks = blocksOf(chain, 0, HEIGHTS - 1).map(entryOf);
    const { path, store } = await begun();
    const copies: { readonly to: string; readonly durable: number }[] = [];
    // Each copy begins beside writes, however long it takes.
    for (let from = 0; from < HEIGHTS; from += HEIGHTS / COPIES) {
      const writing = (async () => {
        for (const block of blocks.slice(from, from + HEIGHTS / COPIES))
          await store.commit({ blocks: [block], latestIndexedHeight: block.block.height });
      })();
      const to = join(scratchDirectory(), 'index');
      const durable = store.latestIndexedHeight();
      await backupStore({ path, to, chainId }, dependencies);
      copies.push({ to, durable });
      await writing;
    }
    await store.close();
    expect(copies.length).toBe(COPIES);
    for (const { to, durable } of copies) {
      const report = await verifyStore({ path: to, chainId }, dependencies);
      expect(report).toMatchObject({ damages: [], damageCount: 0 });
      expect(report.latestIndexedHeight ?? -1).toBeGreaterThanOrEqual(durable);
    }
  });

  it('names the disk that is full: that of the copy', async ({ skip }) => {
    const small = smallFileSystem(1);
    if (small === undefined) return skip('this user may mount nothing');
    const { path, store } = await begun();
    for (const [latestIndexedHeight, block] of blocksOf(chain, 0, 179).map(entryOf).entries())
      await store.commit({ blocks: [block], latestIndexedHeight });
    await store.close();
    const to = join(small.path, 'index');
    await expect(backupStore({ path, to, chainId }, dependencies)).rejects.toMatchObject(
      fault('disk_full', new RegExp(`^Cannot write a copy of the store at ${to}`)),
    );
  });
});
