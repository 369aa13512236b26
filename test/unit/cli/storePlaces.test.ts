import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync } from 'node:fs';
import { readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ChainGenerator } from '../../../src/devnet/index.js';
import { atEnd, filledDirectory, matching, refusal } from '../../support/index.js';
import { runInProcess, scratchDirectory } from '../../support/index.js';
import { smallFileSystem } from '../../support/smallFileSystem.js';

const FIRST = 100;
const LAST = 103;
const chain = new ChainGenerator({ seed: 5, rootHeight: FIRST });
let dataDir: string;

beforeAll(async () => {
  const place = mkdtempSync(join(tmpdir(), 'fci-places-'));
  dataDir = await filledDirectory({ chain, from: FIRST, to: LAST }, place);
});
afterAll(() => rmSync(dataDir, { recursive: true }));

const run = (...args: string[]) => runInProcess(args);
const at = (place: string): string[] => ['--network', 'devnet', '--data-dir', place];
const migrate = (from: string, to: string) => ['migrate', '--network', 'devnet', '--from', from, '--to', to];
/** Commands that only read, on the store of a place. */
const readers: Readonly<Record<string, (place: string) => string[]>> = {
  verify: (place) => ['verify', ...at(place)],
  get: (place) => ['get', 'block', String(FIRST), ...at(place)],
  export: (place) => ['export', '--quiet', ...at(place)],
  explain: (place) => ['explain', String(FIRST), ...at(place)],
  backfill: (place) => ['backfill', 'status', ...at(place)],
  migrate: (place) => migrate(place, join(scratchDirectory(), 'to')),
};

/** A copy of the data directory that nobody may write to: on a mount, or, where this user may mount none, by its permissions. */
function sealed(): string {
  const small = smallFileSystem(16);
  const place = join(small?.path ?? scratchDirectory(), 'data');
  cpSync(dataDir, place, { recursive: true });
  if (small !== undefined) {
    small.remount('ro');
    return place;
  }
  const folder = join(place, 'index');
  for (const name of readdirSync(folder)) chmodSync(join(folder, name), 0o400);
  chmodSync(folder, 0o500);
  atEnd(() => chmodSync(folder, 0o700));
  return place;
}

describe('a store that can only be read', () => {
  it.each(Object.entries(readers))('%s says how to copy it, and works on the copy', async (_name, reader) => {
    const place = sealed();
    vi.stubEnv('TMPDIR', scratchDirectory());
    atEnd(() => void vi.unstubAllEnvs());
    const refused = await run(...reader(place));
    expect(refused.exit).toBe('storage');
    expect(refused.message).toMatch(/mounted read-only|may not write there/);
    expect(refused.message).not.toMatch(/disk fault|system log/);
    const [, command = ''] = /"flow-collection-indexer ([^"]*)"/.exec(refused.message) ?? [];
    expect(await run(...command.split(' '))).toMatchObject({ exit: 'done' });
    const copy = command.split(' ').at(-1) ?? '';
    expect(await run(...reader(copy))).toMatchObject({ exit: 'done' });
  });

  it('is looked at by status and doctor, and not changed: what would change it says that it must be writable', async () => {
    const place = sealed();
    expect(await run('status', ...at(place))).toMatchObject({
      exit: 'no_daemon',
      message: matching(`no daemon is recorded in ${place}`),
    });
    const { out } = await run('doctor', '--access-node', '127.0.0.1:1', ...at(place));
    expect(out).toContain('disk');
    const refused = refusal('storage', /Remount it writable|Give the directory to the user/);
    for (const command of [`rewind --to ${FIRST} --yes`, 'forget accounts --yes'])
      expect(await run(...command.split(' '), ...at(sealed()))).toMatchObject(refused);
  });

  it('on a full disk is copied first, too', async () => {
    const small = smallFileSystem(1);
    if (small === undefined) return;
    const place = join(small.path, 'data');
    cpSync(dataDir, place, { recursive: true });
    small.fill();
    expect(await run('verify', ...at(place))).toMatchObject(
      refusal('storage', /is full. Copy it first: "flow-/),
    );
  });
});

describe('a place that is no data directory', () => {
  /** Name of the case, the place, and what is said of it. */
  const places: readonly (readonly [string, () => string, RegExp])[] = [
    ['a file', () => fileAt(scratchDirectory()), /part of it is a file/],
    ['below a file', () => join(fileAt(scratchDirectory()), 'data'), /part of it is a file/],
    ['a loop of links', () => loopIn(scratchDirectory()), /a loop of links/],
    ['too long a name', () => join(scratchDirectory(), 'x'.repeat(300)), /too long a name/],
    ['the folder of the store', () => join(dataDir, 'index'), /Name the data directory that it is in/],
    ['nothing', () => join(scratchDirectory(), 'none', 'at', 'all'), /There is no store at/],
  ];

  it.each(places)('%s is named by every command', async (_name, make, words) => {
    const place = make();
    const backup = ['backup', ...at(place), '--to', join(scratchDirectory(), 'to')];
    for (const args of [...Object.values(readers).map((reader) => reader(place)), backup]) {
      const ran = await run(...args);
      expect(ran, args[0]).toMatchObject(refusal('storage', words));
      expect(ran.message).not.toContain('system log');
    }
  });

  it.each([
    ['a file', () => fileAt(scratchDirectory())],
    ['below a file', () => join(fileAt(scratchDirectory()), 'data')],
    ['where nothing can be made', () => '/proc/nowhere/data'],
    ['a place that cannot be written to', () => join(sealed(), 'index', 'to')],
  ])('%s is refused as a target', async (_name, make) => {
    const targets = [
      (place: string) => ['backup', ...at(dataDir), '--to', place],
      (place: string) => migrate(dataDir, place),
      (place: string) => ['restore', '--from', dataDir, ...at(place)],
    ];
    for (const args of targets.map((target) => target(make())))
      expect((await run(...args)).exit, args[0]).toBe('storage');
  });

  it('leaves no store inside another one', async () => {
    const folder = join(dataDir, 'index');
    await run(...migrate(dataDir, folder));
    expect(existsSync(join(folder, 'index'))).toBe(false);
  });

  it('a copy that lacks heights which the store held says so', async () => {
    const place = scratchDirectory();
    cpSync(dataDir, place, { recursive: true });
    const held = `[{"from":${FIRST},"to":${LAST + 2}}]`;
    writeFileSync(join(place, 'index', 'COVERAGE'), `${held}\n${crc32(held).toString(16)}\n`);
    const { exit, out } = await run('backup', ...at(place), '--to', join(scratchDirectory(), 'copy'));
    expect([exit, out]).toEqual([
      'damage',
      expect.stringContaining(`It lacks heights ${LAST + 1} to ${LAST + 2}`),
    ]);
  });

  it('a link to a data directory, and a copy that backup made, are data directories', async () => {
    const link = join(scratchDirectory(), 'link');
    symlinkSync(dataDir, link);
    const copy = join(scratchDirectory(), 'copy');
    expect(await run('backup', ...at(link), '--to', copy)).toMatchObject({ exit: 'done' });
    for (const place of [link, copy])
      for (const reader of Object.values(readers))
        expect(await run(...reader(place))).toMatchObject({ exit: 'done' });
  });
});

function fileAt(folder: string): string {
  const path = join(folder, 'a-file');
  writeFileSync(path, 'not a directory');
  return path;
}

function loopIn(folder: string): string {
  mkdirSync(folder, { recursive: true });
  symlinkSync('two', join(folder, 'one'));
  symlinkSync('one', join(folder, 'two'));
  return join(folder, 'one');
}
