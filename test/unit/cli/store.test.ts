import { chownSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { accountChain, begin, makeChain, matching, refusal, runInProcess } from '../../support/index.js';
import { scratchDirectory, seededCollection, seededRandom, storePath } from '../../support/index.js';
import { useStores, writeStore } from '../../support/index.js';
import type { LevelIndexStore } from '../../../src/storage/index.js';

const FIRST = 6;
const NOBODY = 65_534;

const stores = useStores();
const open = (dataDir: string, accounts?: boolean): Promise<LevelIndexStore> =>
  stores.open(storePath(dataDir), accounts === undefined ? {} : { accounts });

/** A data directory with heights from `first` on, which reach up to `latest`; above it stand blocks that wait. */
async function directoryWith(first: number, latest: number, waiting: number[] = []): Promise<string> {
  const dataDir = scratchDirectory();
  const store = await begin(open(dataDir), first);
  const top = Math.max(latest, ...waiting);
  const contents = Array.from({ length: top - first + 1 }, (_, index) => [seededCollection(`c${index}`, 2)]);
  const blocks = makeChain(first, contents).filter(
    ({ block: { height } }) => height <= latest || waiting.includes(height),
  );
  await store.commit({ blocks, latestIndexedHeight: latest });
  await store.close();
  return dataDir;
}

function run(dataDir: string, ...args: string[]) {
  return runInProcess([...args, '--network', 'devnet', '--data-dir', dataDir]);
}

it.each([['verify'], ['repair']])('%s tells how far it is', async (command) => {
  const dataDir = await directoryWith(FIRST, 8);
  let nowMs = performance.now();
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (nowMs += 600));
  const { err } = await run(dataDir, command).finally(() => clock.mockRestore());
  expect(err).toMatch(/^verifying height \d of 8\n/);
});

it('verify says what can be read, and what is on disk but cannot be read yet', async () => {
  const gap = await run(await directoryWith(FIRST, 8, [11, 12]), 'verify');
  const above = '2 blocks at heights 11 to 12 until height 9 is there\n';
  expect(gap).toMatchObject({ exit: 'done', out: matching(`readable: heights 6 to 8; not yet: ${above}`) });
  const { out } = await run(await directoryWith(0, -1, [2]), 'verify');
  expect(out).toContain('readable: no height; not yet: 1 block at height 2 until height 0 is there\n');
  const whole = await run(await directoryWith(FIRST, 8), 'verify');
  const checked = /^checked: heights 6 to 8: 3 blocks, 3 collections, 6 transactions .* 12 pointers/;
  expect(whole.out).toMatch(checked);
  expect(whole.out).not.toContain('readable:');
});

it('verify says what the database cannot read of a truncated table', async () => {
  const dataDir = await directoryWith(FIRST, 40);
  const path = storePath(dataDir);
  const table = readdirSync(path).find((name) => name.endsWith('.ldb')) ?? '';
  const { size } = statSync(join(path, table));
  truncateSync(join(path, table), size - 100);
  const { exit, out } = await run(dataDir, 'verify');
  expect(exit).toBe('damage');
  expect(out).toContain('damage (database): the database cannot read all of its files: ');
  expect(out).toContain(table);
  expect(out).toMatch(/\d problems?; "repair" says/);
  expect(out).not.toMatch(/no single height|damages;/);
});

it('what root does to the store of another user leaves it to that user', async ({ skip }) => {
  if (process.getuid?.() !== 0) skip();
  const dataDir = await directoryWith(FIRST, 40);
  const index = storePath(dataDir);
  const pathsIn = (): string[] => ['', ...readdirSync(index)].map((name) => join(index, name));
  for (const path of [dataDir, ...pathsIn()]) chownSync(path, NOBODY, NOBODY);
  const copy = join(scratchDirectory(), 'copy');
  const commands = ['verify', `backup --to ${copy}`, 'repair --yes', 'rewind --to 20 --yes'];
  for (const line of [...commands, `restore --from ${copy}`]) {
    if (line.startsWith('repair')) rmSync(join(index, 'CURRENT'));
    if (line.startsWith('restore')) rmSync(index, { recursive: true });
    expect([line, (await run(dataDir, ...line.split(' '))).exit]).toEqual([line, 'done']);
    expect(pathsIn().filter((path) => statSync(path).uid !== NOBODY)).toEqual([]);
  }
});

it('a plan from the root asks for a node where the store knows no spork, and one from a spork with an end names that', async () => {
  const dataDir = scratchDirectory();
  await writeStore(dataDir, makeChain(FIRST, [[]]));
  const plan = async (...of: string[]) => (await run(dataDir, 'backfill', 'plan', '--from', ...of)).message;
  expect(await plan('root')).toContain('Only access nodes know the root of the live spork: start the daemon');
  expect(await plan('spork:x.9', '--to', '9')).toContain('There is no spork x.9 in config/sporks.json');
});

it('rewind says what it would forget, and forgets nothing without --yes', async () => {
  const dataDir = await directoryWith(FIRST, 40, [43]);
  expect(await run(dataDir, 'rewind', '--to', '10')).toMatchObject({
    exit: 'usage',
    message: 'This forgets everything above height 10: 31 heights, 11 to 43. Add --yes to do it.',
  });
  for (const [to, why] of [
    [['--to', '41'], /the store holds heights 6 to 40\./],
    [['--to', '4'], /Give a height from 5 \(forget everything\) to 40\./],
    [[], /rewind --to H --yes/],
  ] as const)
    expect(await run(dataDir, 'rewind', ...to, '--yes')).toMatchObject(refusal('usage', why));
  expect((await run(dataDir, 'get', 'block', '40')).exit).toBe('done');
  expect(await run(dataDir, 'rewind', '--to', '10', '--yes')).toMatchObject({ exit: 'done' });
  expect(await run(dataDir, 'rewind', '--to', '10')).toMatchObject({
    message: 'This forgets everything above height 10: there is nothing. Add --yes to do it.',
  });
});

it('a store that begins at height 0 and has nothing yet never shows -1', async () => {
  const dataDir = await directoryWith(0, -1);
  for (const line of ['get block 0', 'explain 0', 'explain 0 --json', 'export', 'verify', 'rewind --to 3']) {
    const { out, err, message } = await run(dataDir, ...line.split(' '));
    expect(out + err + message).not.toMatch(/-1\b/);
  }
  const document = JSON.parse((await run(dataDir, 'explain', '0', '--json')).out) as object;
  expect(document).toMatchObject({ firstIndexed: 0, latestIndexed: null });
});

it.each([
  'get block deadbeef',
  'get collection 12',
  'get transaction xyz',
  'get account nobody',
  'explain x',
])('a key that can be none is wrong use without a store as with one: %s', async (line) => {
  for (const dataDir of [scratchDirectory(), await directoryWith(FIRST, 8)])
    expect((await run(dataDir, ...line.split(' '))).exit).toBe('usage');
});

it('a store that another command reads is waited for, and given up after a while, with the name of the process that holds it', async () => {
  const dataDir = await directoryWith(FIRST, 8);
  const results = await Promise.all([6, 7, 8].map((height) => run(dataDir, 'get', 'block', String(height))));
  expect(results.map(({ exit }) => exit)).toEqual(['done', 'done', 'done']);
  const holder = await open(dataDir);
  try {
    const { exit, message } = await run(dataDir, 'get', 'block', '6');
    expect(exit).toBe('storage');
    expect(message).toContain('The directory is in use by this process.');
    // A daemon is recorded there: that it does not answer comes first.
    const dead = { host: '127.0.0.1', port: 1 };
    const record = { pid: process.pid, instance: 'a', api: dead, metrics: dead };
    writeFileSync(join(dataDir, 'daemon.json'), JSON.stringify(record));
    const words =
      /^No daemon answers: the one recorded in .* at .*:1 \(ECONNREFUSED\)\. Cannot open .*in use by this/;
    const commands = [
      ['get', 'block', '6'],
      ['export', '--output', join(dataDir, 'x')],
    ].map((command) => run(dataDir, ...command));
    for (const recorded of await Promise.all(commands))
      expect(recorded).toMatchObject(refusal('storage', words));
  } finally {
    await holder.close();
  }
});

const forget = (dataDir: string, ...args: string[]) => run(dataDir, 'forget', 'accounts', ...args);

it('forget accounts drops the index that a daemon kept, keeps every block, and has nothing to do then, nor in a store that has not begun; none is where there is no store', async () => {
  const dataDir = scratchDirectory();
  const chain = accountChain(seededRandom(9), FIRST, 30);
  const latest = FIRST + chain.length - 1;
  const store = await begin(open(dataDir, true), FIRST);
  await store.commit({ blocks: chain, latestIndexedHeight: latest });
  await store.close();
  expect(await forget(dataDir)).toMatchObject({ exit: 'usage' });
  const forgot = matching(/^Forgot the account index: [1-9][\d,]* entries\.\n$/);
  for (const out of [forgot, 'The store has no account index: nothing to forget.\n'])
    expect(await forget(dataDir, '--yes')).toMatchObject({ exit: 'done', out });
  const left = await open(dataDir);
  expect(left.accounts.coverage()).toBeUndefined();
  expect(left.latestIndexedHeight()).toBe(latest);
  expect(await forget(dataDir, '--yes')).toMatchObject({ exit: 'storage' });
  await left.close();
  const empty = scratchDirectory();
  await (await open(empty, true)).close();
  expect((await forget(empty, '--yes')).out).toContain('nothing to forget');
  expect(await forget(scratchDirectory(), '--yes')).toMatchObject({ exit: 'storage' });
});
