import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/runtime/index.js';
import { seededRandom } from '../../../src/runtime/random.js';
import { LevelIndexStore } from '../../../src/storage/index.js';
import { accountChain } from '../../support/accountChain.js';
import { scratchDirectory } from '../../support/program.js';
import { RecordingLogger } from '../../support/recordingLogger.js';
import { metaFrom, TEST_CHAIN } from '../../support/storeDirectory.js';
import { storePath } from '../../support/storeDump.js';
import { runInProcess } from '../../support/terminal.js';

const FIRST = 100;
const chain = accountChain(seededRandom(9), FIRST, 30);
const LAST = FIRST + chain.length - 1;

const openAt = (dataDir: string, accounts?: boolean): Promise<LevelIndexStore> =>
  LevelIndexStore.open(
    { path: storePath(dataDir), chainId: TEST_CHAIN, ...(accounts === undefined ? {} : { accounts }) },
    { logger: new RecordingLogger(), clock: systemClock },
  );

const forget = (dataDir: string, ...args: string[]) =>
  runInProcess(['forget', 'accounts', '--network', 'devnet', '--data-dir', dataDir, ...args]);

describe('forget accounts', () => {
  it('drops the index that a daemon kept, keeps every block, and has nothing to do then', async () => {
    const dataDir = scratchDirectory();
    const store = await openAt(dataDir, true);
    await store.initialise(metaFrom(FIRST));
    await store.commit({ blocks: chain, latestIndexedHeight: LAST });
    await store.close();
    expect(await forget(dataDir)).toMatchObject({ exit: 'usage' });
    expect(await forget(dataDir, '--yes')).toMatchObject({
      exit: 'done',
      out: expect.stringMatching(/^Forgot the account index: [1-9][\d,]* entries\.\n$/) as string,
    });
    expect(await forget(dataDir, '--yes')).toMatchObject({
      exit: 'done',
      out: 'The store has no account index: nothing to forget.\n',
    });
    const left = await openAt(dataDir);
    expect(left.accounts.coverage()).toBeUndefined();
    expect(left.latestIndexedHeight()).toBe(LAST);
    // Somebody is at work with it.
    expect(await forget(dataDir, '--yes')).toMatchObject({ exit: 'storage' });
    await left.close();
  });

  it('finds nothing in a store that has not begun, and none where there is no store', async () => {
    const dataDir = scratchDirectory();
    await (await openAt(dataDir, true)).close();
    expect((await forget(dataDir, '--yes')).out).toContain('nothing to forget');
    expect(await forget(scratchDirectory(), '--yes')).toMatchObject({ exit: 'storage' });
  });
});
