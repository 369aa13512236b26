import { existsSync } from 'node:fs';
import { cp, lstat, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/runtime/index.js';
import { coverageNote, readCoverageNote } from '../../../src/storage/leveldb/directory/coverageNote.js';
import { begin, chainWith, changeFile, commitThrough, digestOf, eventually } from '../../support/index.js';
import { gone, heal, heightOf, keyOf, LOG, MemoryDatabase, range } from '../../support/index.js';
import { RecordingLogger, seededCollection, seededRandom, storeOver } from '../../support/index.js';
import { transactionIdsOf, useStores } from '../../support/index.js';
import { rangesInWords } from '../../../src/storage/index.js';
import type { Entry, FoundDamage, LevelIndexStore } from '../../../src/storage/index.js';

const FIRST = 5;
const LAST = 24;
const ROUNDS = 60;
const chain = chainWith(FIRST, LAST - FIRST + 2, (index) =>
  index % 4 === 3 ? [] : [seededCollection(`h${index}`, 1 + (index % 3)), seededCollection(`i${index}`, 1)],
);
const stored = chain.slice(0, -1);

async function filled() {
  const database = new MemoryDatabase();
  const store = await begin(storeOver(database, true), FIRST);
  await commitThrough(store, stored, LAST);
  return { database, store };
}

/** Changes one byte of the value, or takes the record away. */
async function damage(database: MemoryDatabase, [key, value]: Entry, at: number): Promise<void> {
  const changed = Buffer.from(value);
  if (at < changed.length) changed[at] = (changed[at] ?? 0) ^ 0x10;
  await database.set(key, at < changed.length ? changed : undefined);
}

/** Every read of what a height has. */
function readsOf(store: LevelIndexStore, height: number): Promise<unknown>[] {
  const { block, collections } = chain[height - FIRST]!;
  return [
    ...[store.blockByHeight(height), store.blockById(block.id), store.wholeBlock(height)],
    ...collections.map(({ id }) => store.item('collection', id)),
    ...collections.flatMap(transactionIdsOf).map((id) => store.item('transaction', id)),
  ];
}

/** Whatever is asked for of a damaged height is what it was, is refused with that height, or is not found where a record is gone. */
async function expectNeverWrong(
  { store, sound }: Readonly<Record<'store' | 'sound', LevelIndexStore>>,
  height: number,
  isGone: boolean,
) {
  const answers = await Promise.all(readsOf(sound, height));
  for (const [index, outcome] of (await Promise.allSettled(readsOf(store, height))).entries()) {
    if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ kind: 'corrupt', height });
    else if (outcome.value !== undefined || !isGone) expect(outcome.value).toEqual(answers[index]);
  }
  expect(await store.blockByHeight(height + 1)).toBeDefined();
}

const whole = range(FIRST, LAST);
const only = (height: number) => [range(height)];

describe('a store with a damaged record', () => {
  it('finds it, makes a hole of its height, and is what it was once that is filled again', async () => {
    const random = seededRandom(7);
    const { store: sound } = await filled();
    const digest = await digestOf(sound);
    const kinds = new Set<number>();
    for (let round = 0; round < ROUNDS; round += 1) {
      const { database, store } = await filled();
      const records: Entry[] = [];
      for await (const page of database.pages({})) records.push(...page);
      const mortal = records.filter(([key]) => (heightOf(key) ?? LAST) < LAST);
      const record = mortal[Math.floor(random.next() * mortal.length)];
      const height = record && heightOf(record[0]);
      if (record === undefined || height === undefined) expect.unreachable();
      kinds.add(record[0][0] ?? 0);
      const at = Math.floor(random.next() * (record[1].length + 2));
      await damage(database, record, at);

      await expectNeverWrong({ store, sound }, height, at >= record[1].length);
      const { damages } = await store.check(whole);
      expect(new Set(damages.map((each) => each.height))).toEqual(new Set([height]));
      expect(await store.heal(only(height))).toEqual(only(height));
      expect([store.healing(), await store.blockByHeight(height)]).toEqual([only(height), undefined]);
      expect(store.latestIndexedHeight()).toBe(LAST);
      expect((await store.check(whole)).damages).toEqual([]);

      // It is a hole for the next process, too, and the live range grows above it.
      await store.close();
      const again = await storeOver(database, true);
      expect(again.healing()).toEqual(only(height));
      await heal(again, stored);
      expect(again.healing()).toEqual([]);
      expect(again.coverage()).toEqual([whole]);
      expect(again.accounts.coverage()).toEqual({ ...whole, missingHeights: 0 });
      expect(await digestOf(again), `record ${record[0].toString('hex')}`).toBe(digest);
    }
    expect([...kinds].sort()).toEqual([0x10, 0x11, 0x20, 0x21, 0x22, 0x23]);
  });

  it('tells what reads meet, with its height, and the start of a range above a damaged block', async () => {
    const { database, store } = await filled();
    const told: FoundDamage[] = [];
    store.onDamage((each) => told.push(each));
    const body = keyOf(0x11, 9, 0);
    await damage(database, [body, (await database.get(body))!], 3);
    const [id] = chain[9 - FIRST]!.block.collectionIds;
    for (const read of [() => store.item('collection', id!), () => store.wholeBlock(9)])
      await expect(read()).rejects.toMatchObject({ kind: 'corrupt', height: 9 });
    const met = { height: 9, what: 'body of height 9: its checksum does not match' };
    expect(told).toEqual([met, met]);
    await store.heal(only(12));
    await database.set(keyOf(0x10, 11), Buffer.from('damaged'));
    expect((await store.ranges.run(range(12))).latestBlock()).toBeUndefined();
    expect(told.slice(2)).toMatchObject([{ height: 11 }]);
  });

  it.each([10, 11])('leaves nothing of a hole above the height %i that it is rewound to', async (to) => {
    const { store } = await filled();
    const { store: twin } = await filled();
    await store.heal(only(12));
    await Promise.all([store.rewind(to), twin.rewind(to)]);
    expect(await digestOf(store)).toBe(await digestOf(twin));
  });
});

describe('a store whose write-ahead log is lost', () => {
  const { open, closedStore, freshPath } = useStores();
  const GONE = /^heights that were durable are gone/;
  /** From here on in the log. */
  const LOGGED = FIRST + 12;

  /** What an open says of lost heights. */
  async function goneAt(path: string): Promise<unknown[]> {
    const logger = new RecordingLogger();
    await (await open(path, {}, logger)).close();
    return logger.records.filter(({ message }) => GONE.test(message)).map(({ fields }) => fields['heights']);
  }

  /** What a process leaves that is killed after it has done something, without its log. */
  async function killedWithoutLog(act: (store: LevelIndexStore) => Promise<void>): Promise<string> {
    const path = await closedStore(stored.slice(0, LOGGED - FIRST));
    const store = await open(path);
    await commitThrough(store, stored, LAST);
    await act(store);
    const noted = `"to":${store.latestIndexedHeight()}}]`;
    const note = (): Promise<string> => readFile(join(path, 'COVERAGE'), 'utf8').catch(() => '');
    await eventually(async () => (await note()).includes(noted) || undefined);
    const killed = await freshPath();
    await cp(path, killed, { recursive: true });
    changeFile(killed, LOG, gone);
    return killed;
  }

  it('names the durable heights that are gone, until something is written', async () => {
    const path = await killedWithoutLog(() => Promise.resolve());
    const lost = [rangesInWords([range(LOGGED, LAST)])];
    for (const _open of [1, 2]) expect(await goneAt(path)).toEqual(lost);
    const store = await open(path);
    expect(store.latestIndexedHeight()).toBe(LOGGED - 1);
    await commitThrough(store, stored, LAST);
    await store.close();
    expect(await goneAt(path)).toEqual([]);
  });

  it('does not name heights that were taken out, or made holes', async () => {
    const path = await killedWithoutLog(async (store) => {
      await store.heal([{ from: LOGGED + 1, to: LOGGED + 1 }]);
      await store.rewind(LAST - 2);
    });
    const left = [range(LOGGED, LOGGED), range(LOGGED + 2, LAST - 2)];
    expect(await goneAt(path)).toEqual([rangesInWords(left)]);
  });

  it('does not name heights that were being taken out when that failed', async () => {
    const path = join(await freshPath(), '..');
    const note = coverageNote({ path, coverage: () => [whole] }, { clock: systemClock });
    note.changed();
    await note.end();
    expect(await readCoverageNote(path)).toEqual([whole]);
    const failing = (): Promise<void> => {
      note.changed();
      return Promise.reject(new Error('full'));
    };
    await expect(note.withdrawn(failing)).rejects.toThrow('full');
    await note.end();
    expect(await readCoverageNote(path)).toEqual([]);
  });

  it('says nothing where the note is damaged or missing', async () => {
    const path = await killedWithoutLog(() => Promise.resolve());
    for (const change of [(note: Buffer) => Buffer.from(String(note).replace('"from"', '"fron"')), gone]) {
      changeFile(path, /^COVERAGE$/, change);
      expect(await goneAt(path)).toEqual([]);
    }
  });

  it.runIf(existsSync('/dev/full'))('keeps the note before where there is no room for another', async () => {
    const path = await closedStore(stored.slice(0, LOGGED - FIRST));
    const note = join(path, 'COVERAGE');
    const before = await readFile(note, 'utf8');
    await symlink('/dev/full', `${note}.new`);
    const store = await open(path);
    await commitThrough(store, stored, LAST);
    await store.close();
    expect((await lstat(note)).isFile()).toBe(true);
    expect(await readFile(note, 'utf8')).toBe(before);
    expect(await goneAt(path)).toEqual([]);
  });
});
