import { expect, it } from 'vitest';
import { sleep, systemClock } from '../../../src/runtime/index.js';
import { accountChain, begin, keyOf, MemoryDatabase, RecordingLogger } from '../../support/index.js';
import { seededRandom, storeOver, VirtualClock } from '../../support/index.js';
import { accountIndexBuilder, StorageError } from '../../../src/storage/index.js';
import type { FoundDamage, LevelIndexStore } from '../../../src/storage/index.js';
import type { AccountIndex } from '../../../src/storage/port/AccountIndex.js';

const FIRST = 50;
const chain = accountChain(seededRandom(5), FIRST, 300);
const LAST = FIRST + chain.length - 1;
const NEVER = new AbortController().signal;

const BUILDING = 'building the account index';
const COMPLETE = 'the account index is complete';

/** An index that lacks so many heights, each a step that takes so long. */
function slowIndex(clock: VirtualClock, heights: number, stepMs: number) {
  const index = {
    steps: 0,
    coverage: () => {
      const missingHeights = heights - index.steps;
      return { from: FIRST + missingHeights, to: LAST, missingHeights };
    },
    extend: async (): Promise<void> => {
      if (stepMs > 0) await sleep(clock, stepMs);
      index.steps += 1;
    },
    page: (): never => expect.unreachable('nobody reads'),
  };
  return index;
}

/** A store whose blocks came while the index was off; now it is on. */
async function lateIndex(): Promise<{ database: MemoryDatabase; store: LevelIndexStore }> {
  const database = new MemoryDatabase();
  await begin(storeOver(database, false), FIRST, chain);
  return { database, store: await storeOver(database, true) };
}

/** Runs to the end of it, in virtual time. */
async function run(clock: VirtualClock, accounts: AccountIndex, signal = NEVER) {
  const logger = new RecordingLogger();
  const builder = accountIndexBuilder({ accounts, clock, logger });
  let isOver = false;
  const running = builder.run(signal).finally(() => (isOver = true));
  running.catch(() => undefined);
  const tookMs = await clock.advanceUntil(() => isOver);
  return { builder, logger, running, tookMs };
}

it('writes nothing while there is no room', async () => {
  const clock = new VirtualClock();
  const index = slowIndex(clock, 3, 25);
  let goOn = (): void => undefined;
  const isFull = new Promise<void>((resolve) => (goOn = resolve));
  let asked = 0;
  const room = { whenRoom: () => ((asked += 1) === 2 ? isFull : undefined) };
  const builder = accountIndexBuilder({ accounts: index, clock, logger: new RecordingLogger(), room });
  const running = builder.run(NEVER);
  await clock.advance(10_000);
  expect(index.steps).toBe(1);
  goOn();
  await clock.advance(10_000);
  await running;
  expect(index.steps).toBe(3);
});

it('rests four times as long as it works, also after a step that took no time, and says when it begins and ends, and now and then how far it is', async () => {
  const clock = new VirtualClock();
  const { builder, logger, tookMs } = await run(clock, slowIndex(clock, 70, 100));
  expect(tookMs).toBe(70 * 100 * 5);
  expect(builder.progress()).toMatchObject({ state: 'complete', missingHeights: 0 });
  // 35 seconds, with a line in each ten.
  expect(logger.messages()).toEqual([BUILDING, BUILDING, BUILDING, BUILDING, COMPLETE]);
  const lacking = logger.records.map(({ fields }) => fields['missingHeights'] as number);
  expect(lacking).toEqual([...lacking].sort((left, right) => right - left));
  expect([lacking[0], lacking.at(-1)]).toEqual([70, 0]);
  expect((await run(clock, slowIndex(clock, 300, 0))).tookMs).toBeGreaterThanOrEqual(300);
});

it('has nothing to do, or to say, where the index is off or complete', async () => {
  const { database, store } = await lateIndex();
  const clock = new VirtualClock();
  while (store.accounts.coverage()?.missingHeights !== 0) await store.accounts.extend();
  const complete = await run(clock, store.accounts);
  expect(complete.builder.progress().state).toBe('complete');
  const off = await run(clock, (await storeOver(database, false)).accounts);
  expect(off.builder.progress()).toEqual({ state: 'off', coveredFrom: null, missingHeights: null });
  expect([...complete.logger.records, ...off.logger.records]).toEqual([]);
});

it('stops at damage, says so, leaves the rest of the daemon alone, and goes on once that is healed', async () => {
  const { database, store } = await lateIndex();
  const key = keyOf(0x10, LAST - 150);
  (await database.get(key))![3]! ^= 1;
  const told: FoundDamage[] = [];
  store.onDamage((damage) => told.push(damage));
  const logger = new RecordingLogger();
  const builder = accountIndexBuilder({ accounts: store.accounts, clock: systemClock, logger });
  expect(builder.progress()).toMatchObject({ state: 'building', missingHeights: 300 });
  await builder.run(NEVER);
  expect(told).toMatchObject([{ height: LAST - 150 }]);
  expect(builder.progress()).toMatchObject({ state: 'stopped', coveredFrom: LAST - 127 });
  expect(logger.records.filter(({ level }) => level === 'error')).toMatchObject([
    { message: 'the account index cannot be built further', fields: { kind: 'corrupt' } },
  ]);
  expect(logger.messages()).not.toContain(COMPLETE);
  (await database.get(key))![3]! ^= 1;
  await builder.run(NEVER);
  expect(builder.progress().state).toBe('complete');
  expect(store.accounts.coverage()).toMatchObject({ from: FIRST, to: LAST });
});

it('fails with a disk that fails', async () => {
  const { database, store } = await lateIndex();
  const full = new StorageError('disk_full', 'The disk is full.');
  database.beforeWrite = () => Promise.reject(full);
  const logger = new RecordingLogger();
  const builder = accountIndexBuilder({ accounts: store.accounts, clock: systemClock, logger });
  await expect(builder.run(NEVER)).rejects.toBe(full);
  // Nor is anything written on top of it.
  database.beforeWrite = () => Promise.resolve();
  await expect(builder.run(NEVER)).rejects.toBe(full);
  expect(builder.progress()).toMatchObject({ missingHeights: 300 });
});

it('ends in its rest when it is told to', async () => {
  const clock = new VirtualClock();
  const index = slowIndex(clock, 40, 25);
  const controller = new AbortController();
  clock.setTimer(60, () => controller.abort());
  const { builder, logger, running, tookMs } = await run(clock, index, controller.signal);
  await expect(running).rejects.toMatchObject({ name: 'AbortError' });
  expect({ steps: index.steps, tookMs }).toEqual({ steps: 1, tookMs: 60 });
  expect(builder.progress().state).toBe('building');
  expect(logger.messages()).toEqual([BUILDING]);
});
