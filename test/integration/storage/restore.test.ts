import { appendFileSync, existsSync, statSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { cp, mkdir, mkdtemp, readdir, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { create } from 'tar';
import { afterAll, describe, expect, it } from 'vitest';
import { ChainGenerator } from '../../../src/devnet/index.js';
import { AbortError, systemClock } from '../../../src/runtime/index.js';
import { backupStore, loadRestore, type RestoreDependencies } from '../../../src/storage/index.js';
import { atEnd, batchOf, begin, blocksOf, chainWith, changeFile, cutAt } from '../../support/index.js';
import { entryOf, fault, filesOf, gone, lastFile, MANIFEST, rawEntries } from '../../support/index.js';
import { RecordingLogger, repairAt, RestNode, seededCollection, TABLE } from '../../support/index.js';
import { TEST_CHAIN, useStores, verifyAt, VirtualClock, withRawDatabase } from '../../support/index.js';
import { zeroed } from '../../support/index.js';
import { lastingPort } from '../../support/lastingPort.js';
import { smallFileSystem } from '../../support/smallFileSystem.js';

const chain = chainWith(1, 30, (index) => [seededCollection(`r${index}`, 1 + (index % 3), 300)]);
const logger = new RecordingLogger();
const { freshPath, open, filled } = useStores();

/** A closed store with a table, and a log of what came after it: made once, and copied. */
let template: string | undefined;
afterAll(async () => {
  if (template !== undefined) await rm(template, { recursive: true, force: true });
});

async function soundStore(): Promise<string> {
  const path = await freshPath();
  if (template === undefined) {
    template = await mkdtemp(join(tmpdir(), 'fci-sound-'));
    await (await filled(chain.slice(0, 20), template)).close();
    const store = await open(template);
    await store.commit(batchOf(...chain.slice(20)));
    await store.close();
  }
  await cp(template, path, { recursive: true });
  return path;
}

/** Where a server answers every request like this. */
async function servedBy(answer: (response: ServerResponse) => void): Promise<string> {
  const { url } = await RestNode.start((_request, response) => answer(response));
  return `${url}/snapshot.tar`;
}

const served = (body: Buffer): Promise<string> =>
  servedBy((response) => response.writeHead(200, { 'content-length': body.length }).end(body));

const archiveOf = (directory: string, gzip = false): Promise<Buffer> =>
  create({ cwd: directory, gzip }, ['.']).concat();

const backup = (path: string, to: string, how: Partial<RestoreDependencies> = {}) =>
  backupStore({ path, to, chainId: TEST_CHAIN }, { logger, clock: systemClock, ...how });

type How = Partial<RestoreDependencies> & { readonly path?: string; readonly chainId?: string };

async function restored(from: string, how: How = {}) {
  const { restoreStore } = await loadRestore();
  const { chainId = TEST_CHAIN, path = await freshPath(), ...given } = how;
  const { signal } = new AbortController();
  const report = await restoreStore(
    { from, path, chainId },
    { clock: systemClock, logger, signal, ...given },
  );
  return { ...report, path };
}

/** Refused like this, and nothing of it is left behind. */
async function expectRefused(from: string, error: object, how: How = {}): Promise<void> {
  const path = await freshPath();
  await expect(restored(from, { ...how, path })).rejects.toMatchObject(error);
  expect(await readdir(dirname(path))).toEqual([]);
}

const saying = (...words: readonly string[]) => ({
  message: expect.stringMatching(new RegExp(words.join('.*'))) as string,
});

describe('a snapshot of a store becomes a store', () => {
  it('with every record of the first, from a directory, a data directory or an archive of either', async () => {
    const path = await soundStore();
    const data = await freshPath();
    const copied = await backup(path, join(data, 'index'));
    expect(copied).toMatchObject({ coverage: [{ from: 1, to: 30 }] });
    expect(copied.linkedBytes + copied.copiedBytes).toBeGreaterThan(0);
    const wanted = await rawEntries(path);
    const archives = [await archiveOf(path), await archiveOf(data, true)];
    for (const from of [path, data, ...(await Promise.all(archives.map(served)))]) {
      const report = await restored(from);
      expect(report).toMatchObject({ damageCount: 0, latestIndexedHeight: 30, heights: 30 });
      expect(await rawEntries(report.path)).toEqual(wanted);
    }
  });

  it('in a directory that held a store without blocks, and says how far it is', async () => {
    const body = await archiveOf(await soundStore());
    const [path, place] = [await freshPath(), await freshPath()];
    await mkdir(place);
    await writeFile(join(place, 'LOCK'), '');
    await symlink(place, path);
    const phases = new Set<string>();
    let downloaded: unknown;
    const onProgress: RestoreDependencies['onProgress'] = (progress) => {
      phases.add(progress.phase);
      if (progress.phase === 'download') downloaded = progress;
    };
    await restored(await served(body), { path, onProgress });
    expect(downloaded).toEqual({ phase: 'download', bytes: body.length, ofBytes: body.length });
    expect([...phases]).toEqual(expect.arrayContaining(['download', 'blocks']));
    expect(await readdir(place)).toContain('CURRENT');
    // One that does not say how long it is.
    const inParts = await servedBy((response) => {
      response.write(body.subarray(0, 100));
      response.end(body.subarray(100));
    });
    await restored(inParts, { onProgress });
    expect(downloaded).toEqual({ phase: 'download', bytes: body.length, ofBytes: undefined });
  });

  it('without the files beside it: none is written but those of a database, wherever the archive puts them', async () => {
    const path = await soundStore();
    const above = dirname(path);
    await writeFile(join(above, 'notes.txt'), 'mine');
    await writeFile(join(path, 'run.sh'), 'exit 1');
    await symlink('/etc/passwd', join(path, '000777.ldb'));
    const from = await served(await archiveOf(above));
    const { path: made } = await restored(from);
    expect(await readdir(made)).not.toEqual(expect.arrayContaining([expect.stringMatching(/777|notes|run/)]));
    expect((await stat(lastFile(made, TABLE))).mode & 0o777).toBe(0o600);
  });

  it('never in the place of another store', async () => {
    const path = await soundStore();
    const error = { kind: 'not_a_store', ...saying('There is a store at', 'nothing is ever replaced') };
    await expect(restored(await soundStore(), { path })).rejects.toMatchObject(error);
    expect(await rawEntries(path)).not.toEqual([]);
  });
});

it('a snapshot is refused, by its cause, where there is none', async () => {
  const empty = await freshPath();
  await expectRefused(empty, { kind: 'missing', ...saying('There is no snapshot at', 'index') });
  await writeFile(empty, 'a file');
  await expectRefused(empty, { kind: 'missing', ...saying('There is no snapshot at') });
  const long = `/${'x'.repeat(300)}`;
  await expectRefused(long, { kind: 'io', ...saying('ENAMETOOLONG') });
});

it('a snapshot is refused, by its cause, when it is another chain’s', async () => {
  const path = await soundStore();
  const error = { exit: 'foreign', ...saying(TEST_CHAIN, 'flow-mainnet') };
  await expectRefused(path, error, { chainId: 'flow-mainnet' });
  await expectRefused(await served(await archiveOf(path)), error, { chainId: 'flow-mainnet' });
});

const losePointer = (path: string) =>
  withRawDatabase(path, (raw) => raw.clear({ gte: Buffer.of(0x22), lt: Buffer.of(0x23), limit: 1 }));

it.each<[string, (path: string) => unknown, string?]>([
  ['one record is gone', losePointer, 'pointer'],
  ['bytes differ', (path) => changeFile(path, TABLE, zeroed(50, 2_000)), '\\(and \\d+ more\\)'],
  ['its manifest is unreadable', (path) => changeFile(path, MANIFEST, cutAt(20))],
  ['its manifest is not what CURRENT names', (path) => writeFile(join(path, 'CURRENT'), 'something\n')],
  ['its manifest is missing', (path) => changeFile(path, MANIFEST, gone)],
  ['a table that its manifest names is missing', (path) => changeFile(path, TABLE, gone)],
])('a snapshot is refused, by its cause, when %s', async (_, damage, what = '') => {
  const path = await soundStore();
  await damage(path);
  const says = saying('nothing of it was taken: ', what, '\\. Take another one');
  await expectRefused(path, { kind: 'corrupt', ...says });
});

describe('an archive is refused, by its cause,', () => {
  const ofAddress = (...words: readonly string[]) => ({
    ...{ exit: 'usage', ...saying('Cannot get a snapshot from http', ...words, 'Check the address') },
  });
  const ofNow = (...words: readonly string[]) => ({
    ...{ kind: 'unavailable', exit: 'storage' },
    ...saying('Cannot get a snapshot from http.* now: ', ...words, 'again once its server can be reached'),
  });
  const ofContent = (...words: readonly string[]) => ({
    kind: 'corrupt',
    ...saying('cannot be unpacked, and nothing of it was taken: ', ...words, 'Take another one'),
  });

  const answering = (status: number) => () => servedBy((response) => response.writeHead(status).end('no'));
  const halfOf = (bytes: Buffer): Buffer => bytes.subarray(0, bytes.length >> 1);
  const sound = async (gzip: boolean): Promise<Buffer> => archiveOf(await soundStore(), gzip);
  const brokenOff = async (): Promise<string> => {
    const whole = await sound(true);
    return servedBy((response) => {
      response.writeHead(200, { 'content-length': whole.length });
      response.write(halfOf(whole), () => response.destroy());
    });
  };
  const garbled = async (): Promise<string> => {
    const whole = await sound(true);
    const [early, late] = [whole.subarray(0, 200), whole.subarray(200)];
    return served(Buffer.concat([early, Buffer.alloc(20), late, Buffer.alloc(1024 * 1024)]));
  };
  const withoutStore = async (): Promise<string> => {
    const empty = await freshPath();
    await mkdir(empty);
    await writeFile(join(empty, 'readme'), 'no store');
    return served(await archiveOf(empty));
  };
  const ofTwo = async (): Promise<string> => {
    const above = dirname(await soundStore());
    await rename(await soundStore(), join(above, 'second'));
    return served(await archiveOf(above));
  };

  it.each<[string, () => string | Promise<string>, object]>([
    ['its address has a bad port', () => 'http://127.0.0.1:9/snapshot.tar', ofAddress('bad port')],
    ['its address is none', () => 'http://:no-port/', ofAddress()],
    ['its server has none', answering(404), ofAddress('it answers with status 404')],
    ['nobody answers now', async () => `http://127.0.0.1:${await lastingPort()}/`, ofNow('ECONNREFUSED')],
    ['there is no such host now', () => 'http://nobody.invalid/snapshot.tar', ofNow('getaddrinfo')],
    ['its server cannot answer now', answering(503), ofNow('it answers with status 503')],
    ['its server breaks off', brokenOff, ofNow()],
    ['it has been cut short', async () => served(halfOf(await sound(false))), ofContent()],
    ['it has been cut short, compressed', async () => served(halfOf(await sound(true))), ofContent()],
    ['it is garbled', garbled, ofContent()],
    ['it is none', () => served(Buffer.from('<html>not found</html>')), ofContent()],
    ['it is nothing', answering(204), ofContent()],
    ['it holds no store', withoutStore, ofContent('it holds no store')],
    ['it holds two stores', ofTwo, ofContent('it holds [-.0-9A-Zdbgl]+ twice')],
  ])('when %s', async (_, begin, error) => expectRefused(await begin(), error));

  it('when the disk refuses a file of it', async () => {
    const cwd = await soundStore();
    await writeFile(join(cwd, '000999.ldb'), 'x');
    const onWriteEntry = (written: { path: string }): void => {
      if (written.path.endsWith('000999.ldb')) written.path = `./${'1'.repeat(300)}.ldb`;
    };
    const body = await create({ cwd, onWriteEntry }, ['.']).concat();
    await expectRefused(await served(body), { kind: 'io', ...saying('ENAMETOOLONG') });
  });

  it('when its server falls silent, and not before', async () => {
    const body = await archiveOf(await soundStore());
    const clock = new VirtualClock();
    let answer: ServerResponse | undefined;
    const url = await servedBy((response) => {
      answer = response.writeHead(200, { 'content-length': body.length });
      answer.write(body.subarray(0, 600));
    });
    let heard = 0;
    const path = await freshPath();
    const onProgress: RestoreDependencies['onProgress'] = (progress) => {
      if (progress.phase === 'download') heard = progress.bytes;
    };
    const restoring = restored(url, { clock, onProgress, path });
    const refused = expect(restoring).rejects.toMatchObject(ofNow('it sent nothing for 60 s'));
    await expect.poll(() => heard).toBe(600);
    await clock.advance(40_000);
    answer?.write(body.subarray(600, 700));
    await expect.poll(() => heard).toBe(700);
    // A minute from the start, and not yet one from what came last.
    await clock.advance(30_000);
    expect(clock.pendingTimers).toBe(1);
    await clock.advance(60_000);
    await refused;
    expect(clock.pendingTimers).toBe(0);
    expect(await readdir(dirname(path))).toEqual([]);
  });

  it('when its reader is told to stop', async () => {
    const controller = new AbortController();
    const url = await servedBy((response) => {
      response.writeHead(200).write('x');
      setImmediate(() => controller.abort(new AbortError('stopping')));
    });
    const how = { clock: new VirtualClock(), signal: controller.signal };
    await expectRefused(url, { message: 'stopping' }, how);
    await expectRefused(await soundStore(), { message: 'stopping' }, how);
  });

  it.each([
    ['restore', 'restored', (from: string, path: string) => restored(from, { path })],
    ['backup', 'partial', (from: string, path: string) => backup(from, path)],
  ])('when a killed %s left what is not whole, until it is made again', async (command, left, again) => {
    const [from, path] = [await soundStore(), await freshPath()];
    await mkdir(`${path}.${left}`);
    const error = fault('not_a_store', `A ${command} of the store at ${path} was cut short`);
    await expect(open(path)).rejects.toMatchObject(error);
    // While one is at work, another would delete what that has made so far; beside it there may be others.
    const beside = `${path}2`;
    const outcomes = await Promise.allSettled([path, path, beside].map((place) => again(from, place)));
    const refused = outcomes.filter(({ status }) => status === 'rejected');
    const reason = fault('locked', `A ${command} of the store at ${path} is under way`);
    if (['linux', 'win32'].includes(process.platform)) expect(refused).toMatchObject([{ reason }]);
    expect(await readdir(dirname(path))).toEqual([basename(path), basename(beside)]);
    await open(path);
  });
});

describe('a backup', () => {
  const dense = new ChainGenerator({ seed: 5, rootHeight: 0, profile: 'dense' });

  it('holds every block that was durable when it began, while tables are merged away under it', async () => {
    const COPIES = 5;
    const blocks = blocksOf(dense, 0, 149).map(entryOf);
    const share = blocks.length / COPIES;
    const path = await freshPath();
    // So small that tables are written and merged all the time.
    const tuning = { writeBufferSize: 64 * 1024, maxFileSize: 1024 * 1024 };
    const store = await begin(open(path, { tuning }), 0);
    // Each copy begins beside writes, however long it takes.
    for (let from = 0; from < blocks.length; from += share) {
      const writing = (async () => {
        for (const block of blocks.slice(from, from + share)) await store.commit(batchOf(block));
      })();
      const [to, durable] = [await freshPath(), store.latestIndexedHeight()];
      await backup(path, to);
      const report = await verifyAt(to);
      expect(report).toMatchObject({ damages: [], damageCount: 0 });
      expect(report.latestIndexedHeight ?? -1).toBeGreaterThanOrEqual(durable);
      await writing;
    }
  });

  it('names the disk that is full: that of the copy; and is refused, as a repair is, where the store is a mount point, which nothing can replace', async ({
    skip,
  }) => {
    const small = smallFileSystem(1);
    if (small === undefined) return skip('this user may mount nothing');
    const path = await freshPath();
    await (await filled(blocksOf(dense, 0, 179).map(entryOf), path)).close();
    const to = join(small.path, 'index');
    await expect(backup(path, to)).rejects.toMatchObject(
      fault('disk_full', new RegExp(`^Cannot write a copy of the store at ${to}`)),
    );
    const refusal = fault('io', /is where a disk is mounted.*mount the disk at .* instead/);
    await expect(repairAt(small.path)).rejects.toMatchObject(refusal);
    await expect(restored(small.path, { path: small.path })).rejects.toMatchObject(refusal);
  });

  it('takes the place of nothing but an empty directory', async () => {
    const path = await soundStore();
    const to = await freshPath();
    await mkdir(to);
    await backup(path, to);
    expect(await rawEntries(to)).toEqual(await rawEntries(path));
    const refused = 'is not empty, and a backup never replaces anything. Name a directory that does not';
    await expect(backup(path, to)).rejects.toMatchObject(fault('not_a_store', refused));
  });

  it('shares its tables with the store on one file system, and has its own on another', async () => {
    const path = await soundStore();
    const memory = await mkdtemp(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'fci-copy-'));
    atEnd(() => rm(memory, { recursive: true, force: true }));
    const isOther = (await stat(memory)).dev !== (await stat(path)).dev;
    for (const to of [await freshPath(), join(memory, 'copy')]) {
      let copied = 0;
      const onProgress: RestoreDependencies['onProgress'] = (progress) => {
        if (progress.phase !== 'copy') return;
        // The manifest has changed meanwhile: LevelDB skips this.
        if (copied === 0) appendFileSync(lastFile(path, MANIFEST), Buffer.alloc(7));
        copied = progress.bytes;
      };
      const { linkedBytes, tables } = await backup(path, to, { onProgress });
      const sizes = filesOf(path, TABLE).map((file) => statSync(file).size);
      expect(copied).toBe(linkedBytes === 0 ? sizes.reduce((sum, size) => sum + size) : 0);
      expect(tables).toBeGreaterThan(0);
      expect(linkedBytes === 0).toBe(isOther && to.startsWith(memory));
      expect(await rawEntries(to)).toEqual(await rawEntries(path));
    }
  });

  it('takes no height for lost that a daemon takes out while it is made, to heal it', async () => {
    const path = await soundStore();
    const note = async (to: number): Promise<void> => {
      const ranges = JSON.stringify([{ from: 1, to }]);
      await writeFile(join(path, 'COVERAGE'), `${ranges}\n${crc32(ranges).toString(16)}\n`);
    };
    await note(32);
    const signal = new AbortController().signal;
    const noted: Promise<void>[] = [];
    signal.throwIfAborted = () => void noted.push(note(30));
    expect((await backup(path, await freshPath(), { signal })).lost).toEqual([]);
    await Promise.all(noted);
  });

  it('is not made where a file is, in the store, of none, nor once it is told to stop', async () => {
    const path = await soundStore();
    const to = await freshPath();
    await writeFile(to, 'a file');
    await expect(backup(path, to)).rejects.toMatchObject({ kind: 'io', ...saying('ENOTDIR') });
    for (const inside of ['index', 'copy/index'])
      await expect(backup(path, join(path, inside))).rejects.toMatchObject(
        fault('not_a_store', 'in the folder of the store itself'),
      );
    const signal = AbortSignal.abort(new AbortError('told'));
    await expect(backup(path, `${to}.copy`, { signal })).rejects.toThrow('told');
    expect(existsSync(`${to}.copy.partial`)).toBe(false);
    const ofNone = backup(join(dirname(to), 'nowhere'), `${to}.copy`);
    await expect(ofNone).rejects.toMatchObject(fault('missing', 'There is no store at'));
  });
});
