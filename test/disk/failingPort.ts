import { expect } from 'vitest';
import type { LevelIndexStore } from '../../src/storage/index.js';
import { systemClock } from '../../src/runtime/index.js';
import { SimulatedDatabase, SimulatedDisk, type WriteFate } from '../simulation/SimulatedDisk.js';
import { MemoryDatabase, commitThrough, chainWith, seededCollection, begin } from '../support/index.js';
import { metaFrom, storeOver, digestOf } from '../support/index.js';
import type { Result } from './scenario.js';

const LAST = 20;
const FAILS_AT = 10;
const chain = chainWith(0, LAST + 1, (index) => [seededCollection(`p${index}`, 2)]);

/** A fault at the port is told in its own words, nothing follows it, and what was durable is there at the next open. */
export async function throughPort(fault: string, says: RegExp): Promise<Result> {
  for (const isWritten of [false, true]) {
    const disk = new SimulatedDisk();
    const first = await opened(disk, (write) =>
      write === FAILS_AT ? { text: `IO error: /data/000007.log: ${fault}`, isWritten } : undefined,
    );
    await first.initialise(metaFrom(0));
    for (let height = 0; height < FAILS_AT - 1; height += 1) await commit(first, height);
    const failure = commit(first, FAILS_AT - 1);
    await expect(failure).rejects.toMatchObject({ name: 'StorageError', exit: 'storage' });
    await expect(failure).rejects.toThrow(says);
    await expect(commit(first, FAILS_AT - 1)).rejects.toThrow(says);
    await first.close();

    const again = await opened(disk, () => undefined);
    expect(again.latestIndexedHeight()).toBe(isWritten ? FAILS_AT - 1 : FAILS_AT - 2);
    await commit(again, LAST);
    expect(await digestOf(again)).toBe(await faultless());
  }
  return { outcome: 'stopped, went on', exitCode: 74, wentOnFrom: FAILS_AT - 2, remark: 'at the port' };
}

function opened(disk: SimulatedDisk, failureOf: (write: number) => WriteFate['failure']) {
  let writes = 0;
  const database = new SimulatedDatabase(disk, {
    clock: systemClock,
    writeFate: () => ({ writtenMs: 0, syncedMs: 0, toldMs: 0, failure: failureOf(writes++) }),
    readFate: () => ({ takesMs: 0 }),
    onStage: () => undefined,
  });
  return storeOver(database);
}

const commit = (store: LevelIndexStore, height: number): Promise<void> => commitThrough(store, chain, height);

let sound: Promise<string> | undefined;
const faultless = () => (sound ??= begin(storeOver(new MemoryDatabase()), 0, chain).then(digestOf));
