import { mkdirSync, renameSync, rmSync, statfsSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { watchDisk } from '../../../src/app/health/watches/watchDisk.js';
import { AbortError, systemClock } from '../../../src/runtime/index.js';
import { eventually, matching, scratchDirectory, untilEnd, VirtualClock } from '../../support/index.js';

function makeStore(path: string): void {
  mkdirSync(path);
  writeFileSync(join(path, 'LOCK'), '');
}

function putInPlace(path: string, make: () => void): void {
  renameSync(path, `${path}.moved`);
  make();
}

it.each<[string, (path: string) => void]>([
  ['was deleted', (path) => rmSync(path, { recursive: true })],
  ['was moved', (path) => renameSync(path, `${path}.moved`)],
  // Root may enter every directory, but no loop.
  ['cannot be entered any more', (path) => putInPlace(path, () => symlinkSync(path, path))],
  ['was emptied', (path) => rmSync(join(path, 'LOCK'))],
  ['has another in its place', (path) => putInPlace(path, () => makeStore(path))],
])('ends once the directory of the store %s', async (_, change) => {
  const path = join(scratchDirectory(), 'store');
  makeStore(path);
  const clock = new VirtualClock();
  const watch = watchDisk({ path, minFreeBytes: () => 0 }, { clock });
  const ended = watch.run(new AbortController().signal);
  await eventually(() => (clock.pendingTimers > 0 ? true : undefined));
  change(path);
  const told = expect(ended).rejects.toMatchObject({
    ...{ kind: 'missing', exit: 'storage' },
    message: matching(
      new RegExp(`^The store is no longer at ${path}: the directory was deleted.*only its file LOCK`),
    ),
  });
  await clock.advance(1_000);
  await told;
});

it('holds writes up while less than the least is free, and lets them go on with a quarter more', async () => {
  const path = scratchDirectory();
  const { bavail, bsize } = statfsSync(path);
  const GIB = 1024 ** 3;
  let least = bavail * bsize + GIB;
  const watch = watchDisk({ path, minFreeBytes: () => least }, { clock: systemClock });
  untilEnd(watch.run);
  const goesOn = new AbortController().signal;
  expect([watch.pause(), watch.whenRoom(goesOn)]).toEqual([undefined, undefined]);
  const message = await eventually(() => watch.pause());
  const neededMib = Math.ceil((least * 1.25) / 1024 ** 2);
  expect(message).toContain(`${neededMib} MiB are needed to resume`);
  expect(message).toMatch(/^indexing is paused: \d+ MiB are free on the disk of .*, and \d+ MiB are/);

  const stop = new AbortController();
  const stopped = watch.whenRoom(stop.signal);
  const waits = watch.whenRoom(goesOn);
  stop.abort();
  await stopped;
  expect(watch.whenRoom(stop.signal), 'whoever stops waits for nothing').toBeUndefined();
  least = GIB;
  await waits;
  expect(watch.pause()).toBeUndefined();
});

it('notices within a second that the disk is full, of bytes or of files', async () => {
  const clock = new VirtualClock();
  const disk = { freeBytes: 1_000, sizeBytes: 10_000, freeFiles: Infinity };
  const roomAt = () => Promise.resolve({ ...disk });
  const watch = watchDisk({ path: scratchDirectory(), minFreeBytes: () => 100 }, { clock, roomAt });
  untilEnd(watch.run);
  for (const [freeBytes, freeFiles, says] of [
    [99, Infinity, /0 MiB are free on the disk/],
    [124, Infinity, /0 MiB are free on the disk/],
    [1_000, Infinity, undefined],
    [1_000, 99, /has room for 99 more files \("df -i"\), and for 125 it must have/],
    [1_000, 124, /has room for 124 more files/],
    [1_000, 125, undefined],
    [10, 125, /0 MiB are free/],
  ] as const) {
    await eventually(() => (clock.pendingTimers === 1 ? true : undefined));
    Object.assign(disk, { freeBytes, freeFiles });
    await clock.advance(1_000);
    if (says === undefined) expect(watch.pause()).toBeUndefined();
    else expect(watch.pause()).toMatch(says);
  }
});

it('knows nothing before it has looked, or where there is nothing to look at, and the space where a store comes later', async () => {
  const path = join(scratchDirectory(), 'none');
  const clock = new VirtualClock();
  const stop = new AbortController();
  const watch = watchDisk({ path, minFreeBytes: () => 0 }, { clock });
  const ended = expect(watch.run(stop.signal)).rejects.toThrow('the test ends');
  await eventually(() => (clock.pendingTimers === 1 ? true : undefined));
  expect(watch.disk()).toBeUndefined();
  makeStore(path);
  await clock.advance(1_000);
  const { freeBytes, sizeBytes } = await eventually(() => watch.disk());
  const { blocks, bsize } = statfsSync(path);
  expect([freeBytes > 0, sizeBytes]).toEqual([true, blocks * bsize]);
  stop.abort(new AbortError('the test ends'));
  await ended;
});
