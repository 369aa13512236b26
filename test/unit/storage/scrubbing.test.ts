import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createMetrics } from '../../../src/observability/index.js';
import { AbortError, systemClock } from '../../../src/runtime/index.js';
import type { Clock } from '../../../src/runtime/index.js';
import { TableScrubber } from '../../../src/storage/index.js';
import { defaultTuning } from '../../../src/storage/leveldb/directory/openLevel.js';
import { openLevelDatabase } from '../../../src/storage/leveldb/directory/LevelDatabase.js';
import { eventually } from '../../support/program.js';
import { RecordingLogger } from '../../support/recordingLogger.js';
import { makeChain, seededCollection } from '../../support/storeBlocks.js';
import { metaFrom, useStores } from '../../support/storeDirectory.js';
import { VirtualClock } from '../../support/virtualClock.js';

const MIB = 1024 * 1024;
const HOUR_MS = 3_600_000;
const chain = makeChain(
  1,
  Array.from({ length: 30 }, (_, index) => [seededCollection(`c${index}`, 3, 2_000)]),
);
const { freshPath, open, filled, closedStore } = useStores();

/** A store with several tables that is open. */
async function storeAtWork() {
  const path = await closedStore(chain.slice(0, 10));
  const second = await open(path);
  await second.commit({ blocks: chain.slice(10, 20), latestIndexedHeight: 20 });
  await second.close();
  const store = await open(path);
  const tables = (await readdir(path)).filter((name) => name.endsWith('.ldb')).sort();
  expect(tables.length).toBeGreaterThan(1);
  return { path, store, oldest: tables[0]!, tables };
}

/** A scrubber at work. `ended` is what ended it. */
function scrubbing(path: string, { clock, bytesPerSecond = MIB }: { clock: Clock; bytesPerSecond?: number }) {
  const logger = new RecordingLogger();
  const metrics = createMetrics({ version: '', node: '' });
  const controller = new AbortController();
  const scrubber = new TableScrubber({ path, bytesPerSecond }, { clock, logger, metrics });
  let ended: unknown = 'no';
  const done = scrubber.run(controller.signal).then(
    () => (ended = 'by itself'),
    (error: unknown) => (ended = error),
  );
  const passes = () => logger.records.length;
  const scrubbedBytes = async () => (await metrics.scrubbedBytes.get()).values[0]?.value ?? 0;
  const lastScrub = async () => (await metrics.lastScrub.get()).values[0]?.value;
  const stop = (): void => controller.abort(new AbortError('stopping'));
  return { logger, done, ended: () => ended, passes, scrubbedBytes, lastScrub, stop };
}

async function flip(file: string, position: number): Promise<void> {
  const bytes = await readFile(file);
  bytes[position]! ^= 4;
  await writeFile(file, bytes);
}

const isDamageOf = (table: string, what: RegExp) => ({
  name: 'StorageError',
  kind: 'corrupt',
  message: expect.stringMatching(new RegExp(`file ${table}: ${what.source}.*repair --yes`)) as string,
});

describe('the tables of a database at work', () => {
  it('are read at the set pace, once an hour at most, and then again', async () => {
    const { path } = await storeAtWork();
    const clock = new VirtualClock();
    const run = scrubbing(path, { clock, bytesPerSecond: 100 });
    await clock.advance(1_000);
    expect(run.passes()).toBe(0);
    while (run.passes() === 0) await clock.advance(1_000);
    const bytes = await run.scrubbedBytes();
    expect(clock.monotonic()).toBeGreaterThanOrEqual((bytes * 1_000) / 100);
    expect(run.logger.records[0]).toMatchObject({ level: 'debug', fields: { bytes } });
    expect(clock.now() / 1_000 - (await run.lastScrub())!).toBeLessThan(3);
    while (run.passes() === 1) await clock.advance(10_000);
    expect(clock.monotonic()).toBeGreaterThan(HOUR_MS);
    expect(await run.scrubbedBytes()).toBe(2 * bytes);
    run.stop();
    await run.done;
    expect(run.ended()).toBeInstanceOf(AbortError);
    expect(clock.pendingTimers).toBe(0);
  });

  it('are left alone where nothing is to be read', async () => {
    const run = scrubbing('/nowhere', { clock: new VirtualClock(), bytesPerSecond: 0 });
    await run.done;
    expect(run.ended()).toBe('by itself');
  });

  it.each([
    [
      'a changed byte',
      (file: string) => flip(file, 100),
      /the block at offset 0 .* does not match its checksum/,
    ],
    [
      'a changed end',
      async (file: string) => flip(file, (await readFile(file)).length - 3),
      /its footer or index/,
    ],
    ['a part cut off', (file: string) => truncate(file, 500), /it is truncated: 500 of \d+ bytes/],
    ['all of it lost', (file: string) => rm(file), /it is missing/],
  ])('one with %s is named, and the next open refuses it', async (_, damage, what) => {
    const { path, store, oldest } = await storeAtWork();
    const sound = await readFile(join(path, oldest));
    const clock = new VirtualClock();
    const run = scrubbing(path, { clock });
    while (run.passes() === 0) await clock.advance(1_000);
    await damage(join(path, oldest));
    while (run.ended() === 'no') await clock.advance(60_000);
    expect(run.ended()).toMatchObject(isDamageOf(oldest, what));
    await store.close();
    await expect(open(path)).rejects.toMatchObject(isDamageOf(oldest, what));
    // Put right from a copy, it is a store as any other.
    await writeFile(join(path, oldest), sound);
    expect((await open(path)).latestIndexedHeight()).toBe(20);
    expect(await readdir(path)).not.toContain('SUSPECTS');
  });

  it('raise the alarm though no note of the damage can be left', async () => {
    const { path, oldest } = await storeAtWork();
    await mkdir(join(path, 'SUSPECTS'));
    await flip(join(path, oldest), 100);
    const clock = new VirtualClock();
    const run = scrubbing(path, { clock });
    while (run.ended() === 'no') await clock.advance(1_000);
    expect(run.ended()).toMatchObject(isDamageOf(oldest, /the block at offset 0/));
    expect(run.logger.records).toMatchObject([
      { level: 'warn', fields: { file: oldest, error: expect.stringContaining('EISDIR') as string } },
    ]);
  });

  it('cannot be known once the manifest is unreadable for a second, and not before', async () => {
    const { path, tables } = await storeAtWork();
    const [manifest = ''] = (await readdir(path)).filter((name) => name.startsWith('MANIFEST-'));
    const sound = await readFile(join(path, manifest));
    await writeFile(join(path, manifest), 'in the middle of a write');
    const clock = new VirtualClock();
    const run = scrubbing(path, { clock });
    await clock.advance(700);
    await writeFile(join(path, manifest), sound);
    while (run.passes() === 0) await clock.advance(1_000);
    expect(run.logger.records[0]).toMatchObject({ fields: { tables: tables.length } });
    await writeFile(join(path, manifest), 'for good');
    while (run.ended() === 'no') await clock.advance(60_000);
    expect(run.ended()).toMatchObject({
      kind: 'corrupt',
      message: expect.stringContaining('the manifest cannot be read any more') as string,
    });
  });

  it.each([
    ['a table', /\.ldb$/, 'read a table of the store'],
    ['the manifest', /^MANIFEST-/, 'read the manifest of the store'],
  ])('end with what the disk says of %s', async (_, kind, doing) => {
    const { path, store } = await storeAtWork();
    await store.close();
    for (const name of await readdir(path)) {
      if (!kind.test(name)) continue;
      await rm(join(path, name));
      await mkdir(join(path, name));
    }
    const clock = new VirtualClock();
    const run = scrubbing(path, { clock });
    while (run.ended() === 'no') await clock.advance(1_000);
    expect(run.ended()).toMatchObject({
      kind: 'io',
      message: expect.stringMatching(new RegExp(`^Cannot ${doing} at .*EISDIR`)) as string,
    });
  });

  it('that are merged into others meanwhile raise no alarm', async () => {
    const path = await freshPath();
    const store = await open(path, { tuning: { writeBufferBytes: 64 * 1024, maxFileBytes: 64 * 1024 } });
    await store.initialise(metaFrom(1));
    const runs = Array.from({ length: 3 }, () =>
      scrubbing(path, { clock: hurriedClock(), bytesPerSecond: 1_000 * MIB }),
    );
    const long = makeChain(
      1,
      Array.from({ length: 400 }, (_, index) => [seededCollection(`long${index}`, 3, 2_000)]),
    );
    const named = new Set<string>();
    for (const entry of long) {
      await store.commit({ blocks: [entry], latestIndexedHeight: entry.block.height });
      for (const name of await readdir(path)) if (name.endsWith('.ldb')) named.add(name);
    }
    const left = (await readdir(path)).filter((name) => name.endsWith('.ldb')).length;
    expect(named.size).toBeGreaterThan(left + 20);
    for (const run of runs) {
      await eventually(() => (run.passes() > 3 ? true : undefined));
      expect(run.ended()).toBe('no');
      run.stop();
      await run.done;
    }
  }, 60_000);
});

/** The machine's own, on which an hour is a millisecond. */
function hurriedClock(): Clock {
  const at = () => systemClock.monotonic() * HOUR_MS;
  return {
    now: at,
    monotonic: at,
    setTimer: (delayMs, callback) => systemClock.setTimer(delayMs / HOUR_MS, callback),
  };
}

describe('a damaged table that is older than those that every open reads', () => {
  it('is refused because of the note, as long as it is damaged', async () => {
    const path = await freshPath();
    const large = makeChain(
      1,
      Array.from({ length: 10 }, (_, index) => [seededCollection(`large${index}`, 3, 200_000)]),
    );
    await (await filled(large, path)).close();
    const [oldest = ''] = (await readdir(path)).filter((name) => name.endsWith('.ldb'));
    const newer = 256 * 1024;
    expect((await readFile(join(path, oldest))).length).toBeGreaterThan(newer + 10_000);
    // Newer tables, each smaller than that one, and more of them than an open reads.
    const tuning = { ...defaultTuning, writeBufferBytes: 64 * 1024 };
    const database = await openLevelDatabase(path, tuning, { create: false });
    for (let index = 0; index < 300; index += 1) {
      const batch = database.batch();
      batch.put(Buffer.from(`zz${index}`), randomBytes(newer));
      await batch.write();
    }
    await database.close();
    const file = join(path, oldest);
    await flip(file, 150_000);
    const store = await open(path);

    const clock = new VirtualClock();
    const run = scrubbing(path, { clock, bytesPerSecond: 100 * MIB });
    while (run.ended() === 'no') await clock.advance(1_000);
    expect(run.ended()).toMatchObject(isDamageOf(oldest, /the block at offset \d+/));
    await store.close();
    await expect(open(path)).rejects.toMatchObject(isDamageOf(oldest, /the block at offset \d+/));
    await flip(file, 150_000);
    await open(path);
    expect(await readdir(path)).not.toContain('SUSPECTS');
  }, 60_000);
});
