import { rmSync } from 'node:fs';
import { expect } from 'vitest';
import * as files from '../support/databaseFiles.js';
import { eventually, storePath } from '../support/index.js';
import { RunningDaemon } from '../support/runningDaemon.js';
import { fix } from './mending.js';
import type { Outcome, Result, Scenario, Scenarios } from './scenario.js';
import { FINAL, KILLED, SETTLED } from './stage.js';

interface Expected {
  readonly outcome: Outcome;
  /** Heights from which the daemon may go on. */
  readonly from: number;
  readonly to?: number;
}

const nothingLost: Expected = { outcome: 'refused, repaired', from: KILLED };
const unharmed: Expected = { outcome: 'unharmed', from: KILLED };
/** To where the tables reach, at the least. */
const earlier: Expected = { outcome: 'rolled back', from: SETTLED, to: KILLED - 1 };
/** What stood in the second table is lost, and filled in again: what stands above it is kept. */
const tableLost: Expected = { outcome: 'refused, repaired', from: KILLED };
/** The heights whose records cannot be read are fetched again. */
const healed: Expected = { outcome: 'healed', from: KILLED };

const FOOTER_BYTES = 48;
const BLOCK_TRAILER_BYTES = 5;
const LOG_BLOCK_BYTES = 32_768;

/** Where the parts of a table begin, as its footer says. */
function partsOf(table: Buffer) {
  let at = table.length - FOOTER_BYTES;
  const varint = (): number => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = table[at++] ?? 0;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
  };
  const metaindex = varint();
  varint();
  const index = varint();
  // The filter stands between the last block of data and the metaindex: ten bits for each of some 1,300 keys.
  const filter = metaindex - BLOCK_TRAILER_BYTES - 100;
  return { keys: filter - 4_000, filter, index: index + 10 };
}

const flippedIn =
  (part: keyof ReturnType<typeof partsOf>): files.FileChange =>
  (bytes) =>
    files.flippedAt(partsOf(bytes)[part])(bytes);

function changed(kind: RegExp, expected: Expected, change: files.FileChange): Scenario {
  return async (stage) => {
    const dataDir = stage.killedStore();
    files.changeFile(storePath(dataDir), kind, change);
    const names =
      kind === files.CURRENT ? /CURRENT|No such file/ : /Corruption: |No such file|\.ldb: Invalid argument/;
    return expectResult(await fix(stage, dataDir, names), expected);
  };
}

function expectResult(result: Result, { outcome, from, to = from }: Expected): Result {
  expect(result.outcome).toBe(outcome);
  expect(result.wentOnFrom).toBeGreaterThanOrEqual(from);
  expect(result.wentOnFrom).toBeLessThanOrEqual(to);
  return result;
}

/** Within the bodies. A damaged key would hide its record until the scrub comes to it. */
const flippedInBodies = files.flippedAt(1 / 3);

const closed: Scenarios = {
  'CURRENT missing': changed(files.CURRENT, nothingLost, files.gone),
  'CURRENT empty': changed(files.CURRENT, nothingLost, files.holding('')),
  'CURRENT garbage': changed(files.CURRENT, nothingLost, files.holding('\x8fELF\0\0garbage')),
  'CURRENT byte flipped': changed(files.CURRENT, nothingLost, files.flippedAt(3)),

  'MANIFEST missing': changed(files.MANIFEST, nothingLost, files.gone),
  'MANIFEST empty': changed(files.MANIFEST, nothingLost, files.holding('')),
  'MANIFEST truncated': changed(files.MANIFEST, nothingLost, files.cutAt(0.5)),
  'MANIFEST torn tail': changed(files.MANIFEST, nothingLost, files.cutAt(-3)),
  'MANIFEST byte flipped, first record': changed(files.MANIFEST, nothingLost, files.flippedAt(12)),
  'MANIFEST byte flipped, last record': changed(files.MANIFEST, nothingLost, files.flippedAt(-2)),

  'log missing': changed(files.LOG, earlier, files.gone),
  'log empty': changed(files.LOG, earlier, files.holding('')),
  'log truncated': changed(files.LOG, earlier, files.cutAt(0.5)),
  'log torn tail': changed(files.LOG, earlier, files.cutAt(-5)),
  'log byte flipped, first header': changed(files.LOG, healed, files.flippedAt(1)),
  'log byte flipped, length in a header': changed(files.LOG, healed, files.flippedAt(4)),
  'log byte flipped, type in a header': changed(files.LOG, healed, files.flippedAt(3 * LOG_BLOCK_BYTES + 6)),
  'log byte flipped, payload': changed(files.LOG, healed, files.flippedAt(0.5)),
  'log byte flipped, last payload': changed(files.LOG, earlier, files.flippedAt(-9)),
  'log zeroed in the middle': changed(
    files.LOG,
    healed,
    files.zeroed(2 * LOG_BLOCK_BYTES, 4 * LOG_BLOCK_BYTES),
  ),
  'log zeroed to its end': changed(files.LOG, earlier, files.zeroed(2 * LOG_BLOCK_BYTES)),

  'table missing': changed(files.TABLE, tableLost, files.gone),
  'table truncated': changed(files.TABLE, tableLost, files.cutAt(0.5)),
  'table cut by a byte': changed(files.TABLE, tableLost, files.cutAt(-1)),
  'table byte flipped, data block': changed(files.TABLE, healed, flippedInBodies),
  'table byte flipped, block of keys': changed(files.TABLE, healed, flippedIn('keys')),
  'table byte flipped, filter': changed(files.TABLE, unharmed, flippedIn('filter')),
  'table byte flipped, index': changed(files.TABLE, tableLost, flippedIn('index')),
  'table byte flipped, footer': changed(files.TABLE, tableLost, files.flippedAt(-2)),
  'LOCK removed': changed(/^LOCK$/, unharmed, files.gone),
  'LOG of the database garbage': changed(/^LOG$/, unharmed, files.holding('dropping 100 bytes\0')),
  'LOG of the database removed': changed(/^LOG$/, unharmed, files.gone),
  'nothing: only killed': changed(files.CURRENT, unharmed, (bytes) => bytes),
  'first table missing, and the meta record with it': async (stage) => {
    const dataDir = stage.killedStore();
    rmSync(files.filesOf(storePath(dataDir), files.TABLE)[0] ?? expect.unreachable('there are two'));
    const result = await fix(stage, dataDir, /missing files.*\d+\.ldb/);
    return expectResult(result, { outcome: 'refused, begun anew', from: -1, to: 0 });
  },
};

const whileItRuns: Scenarios = {
  'table byte flipped while the daemon serves, and comes upon it by itself': async (stage) => {
    const dataDir = stage.killedStore();
    // A second or so for all heights.
    const daemon = await stage.startAlone(dataDir, '--scrub-bytes-per-second', '50000');
    if (!(daemon instanceof RunningDaemon)) return expect.unreachable('the store is sound');
    files.changeFile(storePath(dataDir), files.TABLE, flippedInBodies);
    await daemon.scrapeUntil((metrics) => metrics.value('damaged_heights_total') > 0);
    const exitCode = await daemon.program.stop();
    expect(exitCode).toBe(0);
    const wentOnFrom = await stage.goesOn(dataDir, { isHealed: true });
    expect(wentOnFrom).toBe(KILLED);
    return { outcome: 'healed', exitCode, wentOnFrom };
  },
  // What is damaged is not served, and all the rest is. Slow enough that it has not been verified yet when it is asked for.
  'table byte flipped while the daemon serves, and healed by it': async (stage) => {
    const dataDir = stage.killedStore();
    const flags = ['--scrub-bytes-per-second', '60000', '--requester-backoff-max-ms', '500'];
    const { daemon, give } = await stage.startBeside(dataDir, ...flags);
    files.changeFile(storePath(dataDir), files.TABLE, flippedInBodies);
    const { refused } = await stage.askEverything(daemon);
    expect(refused).toBeGreaterThan(0);
    give();
    await daemon.reaches(FINAL);
    await eventually(async () => (await stage.askEverything(daemon)).refused === 0);
    const healed = await daemon.scrapeUntil(
      (metrics) => metrics.value('healed_heights_total') === metrics.value('damaged_heights_total'),
    );
    await daemon.ready();
    const coverage = [{ from: 0, to: FINAL }];
    expect(await daemon.status()).toMatchObject({ healing: [], firstIndexed: 0, coverage });
    // Each is named once; the scrub may come upon another one at any time.
    const named = () =>
      daemon.program.logs().filter(({ msg }) => String(msg).startsWith('a stored height is damaged'));
    await daemon.scrapeUntil((metrics) => named().length === metrics.value('damaged_heights_total'));
    const exitCode = await daemon.program.stop();
    expect(exitCode).toBe(0);
    // Once more, with whatever has been left behind.
    expect(await stage.goesOn(dataDir, { isHealed: true })).toBe(FINAL);
    const remark = `heights healed: ${healed.value('healed_heights_total')}`;
    return { outcome: 'healed', exitCode, wentOnFrom: KILLED, remark };
  },
};

export const fileScenarios: Scenarios = { ...closed, ...whileItRuns };
