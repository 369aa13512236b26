import { expect } from 'vitest';
import type { ChainGenerator } from '../../src/devnet/index.js';
import { verifyStore, type SporkRecord, type VerifyReport } from '../../src/storage/index.js';
import { RecordingLogger } from './recordingLogger.js';
import type { DaemonHere, RunningDaemon } from './runningDaemon.js';
import { storePath, withStore } from './storeDump.js';

/** What a store must hold: exactly these heights, each from the chain that it belongs to. */
export interface ExpectedStore {
  readonly firstHeight: number;
  readonly latestHeight: number;
  readonly chainAt: (height: number) => ChainGenerator;
}

export async function stopAndProve(
  daemon: RunningDaemon | DaemonHere,
  dataDir: string,
  expected: ExpectedStore,
): Promise<readonly SporkRecord[]> {
  await daemon.reaches(expected.latestHeight);
  expect(await daemon.program.stop(), daemon.program.stderr).toBe(0);
  return proveStore(dataDir, expected);
}

/** In a store that no process uses. Gives back what `verify` looked at. */
export async function expectNoDamage(dataDir: string): Promise<VerifyReport> {
  const report = await verifyStore(
    { path: storePath(dataDir), chainId: 'flow-localnet' },
    { logger: new RecordingLogger() },
  );
  expect(report).toMatchObject({ damages: [], damageCount: 0 });
  return report;
}

/** And every block is the chain's, byte for byte: `verify` could be content with those of a liar. Gives the sporks on record. */
export async function proveStore(dataDir: string, expected: ExpectedStore): Promise<readonly SporkRecord[]> {
  await expectNoDamage(dataDir);

  return withStore(storePath(dataDir), async (store) => {
    const meta = store.meta();
    expect(meta?.firstHeight).toBe(expected.firstHeight);
    expect(store.latestIndexedHeight()).toBe(expected.latestHeight);
    for (let height = expected.firstHeight; height <= expected.latestHeight; height += 1) {
      const { id, collections } = expected.chainAt(height).block(height);
      const stored = await store.blockByHeight(height);
      expect(stored?.block.id, `block ${height}`).toBe(id);
      expect(stored?.block.collectionIds).toEqual(collections.map((collection) => collection.id));
    }
    return meta?.sporks ?? [];
  });
}
