import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { afterAll, expect, it } from 'vitest';
import type { Database } from '../../../src/storage/index.js';
import type { DescriptorWait } from '../../../src/storage/leveldb/directory/openLevel.js';
import { levelDatabase } from '../../../src/storage/leveldb/directory/levelDatabase.js';
import { useStores } from '../../support/storeDirectory.js';

/** A database in a process that can open no file: what it does then, and when it can again. */

const KIB = 1024;
/** Tables come soon, and few stay open. */
const tuning = { writeBufferSize: 64 * KIB, maxFileSize: 64 * KIB, maxOpenFiles: 74 };

/** Entries of more tables than stay open. */
const FIRST = 600;
/** The first of two that are written while the database is opened again. */
const DURING = 9_000;

const inOrder = (index: number): Buffer => Buffer.from(String(index).padStart(6, '0'));
/** In no order, so that tables overlap and have to be merged. */
const keyOf = (index: number): Buffer => inOrder((index * 7919) % 10_007);

/** Nothing that compresses. */
const noise = randomBytes(1024 * KIB);
const valueOf = (index: number): Buffer => noise.subarray((index * 61) % (900 * KIB)).subarray(0, 16 * KIB);

async function put(database: Database, index: number, key = keyOf): Promise<void> {
  using batch = database.batch();
  batch.put(key(index), valueOf(index));
  await batch.write();
}

const { freshPath } = useStores();
const shell = spawn(
  'sh',
  ['-c', `while read n; do prlimit --pid ${process.pid} --nofile="$n:"; echo; done`],
  { stdio: ['pipe', 'pipe', 'inherit'] },
);
const usual = Number(/^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]);

/** How many files this process may open, until it is said again. */
const mayOpen = async (files: number): Promise<void> => {
  shell.stdin.write(`${files}\n`);
  await once(shell.stdout, 'data');
};

afterAll(() => shell.stdin.end());

const whileNone = async (action: (again: () => Promise<void>) => Promise<void>) => {
  const again = (): Promise<void> => mayOpen(usual);
  await mayOpen(3);
  try {
    await action(again);
  } finally {
    await again();
  }
};

it('loses no write, even after a merge that failed, and reads on from where it was', async () => {
  // Once more they are gone, just as it is opened again.
  const said: (string | undefined)[] = [];
  let alones = 0;
  const meanwhile: Promise<void>[] = [];
  const descriptors: DescriptorWait = {
    waits: (why) => said.push(why),
    alone: async (action) => {
      alones += 1;
      await mayOpen(3);
      const opening = action();
      await new Promise((resolve) => setTimeout(resolve, 100));
      // Others begin to write while it is closed.
      const others = [DURING, DURING + 1].map((index) => put(database, index));
      await mayOpen(usual);
      await opening;
      for (const other of others) meanwhile.push(other);
    },
  };
  const database = await levelDatabase(await freshPath(), { create: true, descriptors, tuning });
  let written = 0;
  for (; written < FIRST; written += 1) await put(database, written);
  const pages = database.pages({});
  let read = ((await pages.next()).value ?? []).length;
  await whileNone(async (again) => {
    await database.compact({ gte: inOrder(0), lt: inOrder(999_999) });
    const writing = (async () => {
      for (const end = written + 400; written < end && said.length === 0; written += 1)
        await put(database, written);
    })();
    await expect.poll(() => said[0]).toBeDefined();
    const reading = database.get(keyOf(0));
    await again();
    await writing;
    expect((await reading)?.equals(valueOf(0))).toBe(true);
  });
  for await (const page of pages) read += page.length;
  expect(read).toBeGreaterThanOrEqual(FIRST);
  expect(said[0]).toMatch(/^the store cannot open a file \(.*Too many open files/);
  expect(said.at(-1)).toBeUndefined();
  // LevelDB takes no write after a merge that failed, until it is opened anew.
  expect(alones).toBe(1);
  await Promise.all(meanwhile);
  for (const index of [...Array(written).keys(), DURING, DURING + 1]) {
    const value = await database.get(keyOf(index));
    expect(value?.equals(valueOf(index)), `entry ${index}`).toBe(true);
  }
  await database.close();
});

it('writes on without being told how to wait, once there are some again', async () => {
  const database = await levelDatabase(await freshPath(), { create: true, tuning });
  for (let index = 0; index < FIRST; index += 1) await put(database, index);
  await whileNone(async (again) => {
    await database.compact({ gte: inOrder(0), lt: inOrder(999_999) });
    const writing = put(database, FIRST);
    await again();
    await writing;
  });
  expect((await database.get(keyOf(FIRST)))?.equals(valueOf(FIRST))).toBe(true);
  await database.close();
});

it('tells a reader so after two seconds', async () => {
  const path = await freshPath();
  const database = await levelDatabase(path, { create: true, tuning });
  for (let index = 0; index < FIRST; index += 1) await put(database, index, inOrder);
  await database.close();
  const reader = await levelDatabase(path, { create: false, tuning });
  await whileNone(async () => {
    const all = async (): Promise<void> => {
      for (let index = 0; index < FIRST; index += 1) await reader.get(inOrder(index));
    };
    await expect(all()).rejects.toThrow('Too many open files');
  });
  expect((await reader.get(inOrder(0)))?.equals(valueOf(0))).toBe(true);
  await reader.close();
});
