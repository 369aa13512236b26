import { readdirSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { eventually, runProgram } from '../support/program.js';
import { RunningDaemon } from '../support/runningDaemon.js';
import { storeFlags, storePath } from '../support/storeDump.js';
import { fix } from './mending.js';
import type { Outcome, Result, Scenario, Scenarios } from './scenario.js';
import { FINAL, KILLED, SETTLED } from './stage.js';
import type { Stage } from './stage.js';

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

/** The last file of a kind, by its number. */
function fileOf(dataDir: string, kind: RegExp): string {
  const names = readdirSync(storePath(dataDir)).filter((name) => kind.test(name));
  names.sort((left, right) => left.localeCompare(right));
  return join(storePath(dataDir), names.at(-1) ?? expect.unreachable(`no file like ${String(kind)}`));
}

function flip(bytes: Buffer, position: number): Buffer {
  const place = Math.floor(position);
  bytes[place] = (bytes[place] ?? 0) ^ 0x10;
  return bytes;
}

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
  return { keys: filter - 4_000, filter, index: index + 10, footer: table.length - 20 };
}

const CURRENT = /^CURRENT$/;
const MANIFEST = /^MANIFEST-/;
const LOG = /^\d+\.log$/;
const TABLE = /^\d+\.(?:ldb|sst)$/;

/** One file changed while no daemon runs. `change` gives its new contents, `undefined` to take it away. */
function changed(
  kind: RegExp,
  expected: Expected,
  change: (bytes: Buffer) => Uint8Array | undefined,
): Scenario {
  return async (stage) => {
    const dataDir = stage.killedStore();
    const file = fileOf(dataDir, kind);
    const contents = change(readFileSync(file));
    if (contents === undefined) rmSync(file);
    else writeFileSync(file, contents);
    const names =
      kind === CURRENT ? /CURRENT|No such file/ : /Corruption: |No such file|\.ldb: Invalid argument/;
    return expectResult(await fix(stage, dataDir, names), expected);
  };
}

function expectResult(result: Result, { outcome, from, to = from }: Expected): Result {
  expect(result.outcome).toBe(outcome);
  expect(result.wentOnFrom).toBeGreaterThanOrEqual(from);
  expect(result.wentOnFrom).toBeLessThanOrEqual(to);
  return result;
}

const current: Scenarios = {
  'CURRENT missing': changed(CURRENT, nothingLost, () => undefined),
  'CURRENT empty': changed(CURRENT, nothingLost, () => Buffer.alloc(0)),
  'CURRENT garbage': changed(CURRENT, nothingLost, () => Buffer.from('\x8fELF\0\0garbage')),
  'CURRENT byte flipped': changed(CURRENT, nothingLost, (bytes) => flip(bytes, 3)),
};

const manifest: Scenarios = {
  'MANIFEST missing': changed(MANIFEST, nothingLost, () => undefined),
  'MANIFEST empty': changed(MANIFEST, nothingLost, () => Buffer.alloc(0)),
  'MANIFEST truncated': changed(MANIFEST, nothingLost, (bytes) => bytes.subarray(0, bytes.length / 2)),
  'MANIFEST torn tail': changed(MANIFEST, nothingLost, (bytes) => bytes.subarray(0, -3)),
  'MANIFEST byte flipped, first record': changed(MANIFEST, nothingLost, (bytes) => flip(bytes, 12)),
  'MANIFEST byte flipped, last record': changed(MANIFEST, nothingLost, (bytes) =>
    flip(bytes, bytes.length - 2),
  ),
};

const log: Scenarios = {
  'log missing': changed(LOG, earlier, () => undefined),
  'log empty': changed(LOG, earlier, () => Buffer.alloc(0)),
  'log truncated': changed(LOG, earlier, (bytes) => bytes.subarray(0, bytes.length / 2)),
  'log torn tail': changed(LOG, earlier, (bytes) => bytes.subarray(0, -5)),
  'log byte flipped, first header': changed(LOG, healed, (bytes) => flip(bytes, 1)),
  'log byte flipped, length in a header': changed(LOG, healed, (bytes) => flip(bytes, 4)),
  'log byte flipped, type in a header': changed(LOG, healed, (bytes) => flip(bytes, 3 * LOG_BLOCK_BYTES + 6)),
  'log byte flipped, payload': changed(LOG, healed, (bytes) => flip(bytes, bytes.length / 2)),
  'log byte flipped, last payload': changed(LOG, earlier, (bytes) => flip(bytes, bytes.length - 9)),
  'log zeroed in the middle': changed(LOG, healed, (bytes) =>
    bytes.fill(0, 2 * LOG_BLOCK_BYTES, 4 * LOG_BLOCK_BYTES),
  ),
  'log zeroed to its end': changed(LOG, earlier, (bytes) => bytes.fill(0, 2 * LOG_BLOCK_BYTES)),
};

const table: Scenarios = {
  'table missing': changed(TABLE, tableLost, () => undefined),
  'table truncated': changed(TABLE, tableLost, (bytes) => bytes.subarray(0, bytes.length / 2)),
  'table cut by a byte': changed(TABLE, tableLost, (bytes) => bytes.subarray(0, -1)),
  'table byte flipped, data block': changed(TABLE, healed, (bytes) => flip(bytes, bytes.length / 3)),
  'table byte flipped, block of keys': changed(TABLE, healed, (bytes) => flip(bytes, partsOf(bytes).keys)),
  'table byte flipped, filter': changed(TABLE, unharmed, (bytes) => flip(bytes, partsOf(bytes).filter)),
  'table byte flipped, index': changed(TABLE, tableLost, (bytes) => flip(bytes, partsOf(bytes).index)),
  'table byte flipped, footer': changed(TABLE, tableLost, (bytes) => flip(bytes, bytes.length - 2)),
  'first table missing, and the meta record with it': async (stage) => {
    const dataDir = stage.killedStore();
    const [first = ''] = readdirSync(storePath(dataDir))
      .filter((name) => TABLE.test(name))
      .sort();
    rmSync(join(storePath(dataDir), first));
    const result = await fix(stage, dataDir, /missing files.*\d+\.ldb/);
    return expectResult(result, { outcome: 'refused, begun anew', from: -1, to: 0 });
  },
};

/** Within the bodies. A damaged key would hide its record until the scrub comes to it. */
function flipInTable(dataDir: string): void {
  const file = fileOf(dataDir, TABLE);
  const bytes = readFileSync(file);
  writeFileSync(file, flip(bytes, bytes.length / 3), { flag: 'r+' });
}

/** A byte that changes below a daemon that serves. */
async function flippedWhileServed(stage: Stage, scrubBytesPerSecond: number) {
  const dataDir = stage.killedStore();
  const flags = ['--scrub-bytes-per-second', String(scrubBytesPerSecond)];
  const daemon = await stage.startAlone(dataDir, ...flags);
  if (!(daemon instanceof RunningDaemon)) return expect.unreachable('the store is sound');
  flipInTable(dataDir);
  return { dataDir, daemon };
}

const whileItRuns: Scenarios = {
  // What is damaged is not served, and all the rest is.
  'table byte flipped while the daemon serves, and read': async (stage) => {
    const { dataDir, daemon } = await flippedWhileServed(stage, 0);
    const { refused } = await stage.askEverything(daemon);
    expect(refused).toBeGreaterThan(0);
    const exitCode = await daemon.program.stop();
    expect(exitCode).toBe(0);
    const wentOnFrom = await stage.goesOn(dataDir, { isHealed: true });
    expect(wentOnFrom).toBe(KILLED);
    return { outcome: 'healed', exitCode, wentOnFrom, remark: `${refused} answers of 503, none wrong` };
  },
  'table byte flipped while the daemon serves, and comes upon it by itself': async (stage) => {
    // A second or so for all heights.
    const { dataDir, daemon } = await flippedWhileServed(stage, 50_000);
    await daemon.scrapeUntil((metrics) => metrics.value('damaged_heights_total') > 0);
    const exitCode = await daemon.program.stop();
    expect(exitCode).toBe(0);
    const wentOnFrom = await stage.goesOn(dataDir, { isHealed: true });
    expect(wentOnFrom).toBe(KILLED);
    return { outcome: 'healed', exitCode, wentOnFrom };
  },
  // Slow enough that what is damaged has not been verified yet when it is asked for.
  'table byte flipped while the daemon serves, and healed by it': async (stage) => {
    const dataDir = stage.killedStore();
    const flags = ['--scrub-bytes-per-second', '60000', '--requester-backoff-max-ms', '500'];
    const { daemon, give } = await stage.startBeside(dataDir, ...flags);
    flipInTable(dataDir);
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

const others: Scenarios = {
  'LOCK removed': async (stage) => {
    const dataDir = stage.killedStore();
    rmSync(join(storePath(dataDir), 'LOCK'));
    return expectResult(await fix(stage, dataDir, /never/), unharmed);
  },
  'LOG of the database garbage': changed(/^LOG$/, unharmed, () => Buffer.from('dropping 100 bytes\0')),
  'LOG of the database removed': changed(/^LOG$/, unharmed, () => undefined),
  'nothing: only killed': async (stage) =>
    expectResult(await fix(stage, stage.killedStore(), /never/), unharmed),
  'repair cut short between its two renamings': async (stage) => {
    const dataDir = stage.killedStore();
    truncateSync(fileOf(dataDir, MANIFEST), 0);
    renameSync(storePath(dataDir), `${storePath(dataDir)}.damaged`);
    const refused = await stage.startAlone(dataDir);
    if (refused instanceof RunningDaemon) return expect.unreachable('a new store began in its place');
    const exitCode = await refused.exited;
    expect(exitCode).toBe(74);
    expect(refused.stderr).toMatch(/run "repair --yes" again/);
    expect(await runProgram(['repair', ...storeFlags(dataDir), '--yes'])).toMatchObject({ code: 0 });
    const wentOnFrom = await stage.goesOn(dataDir);
    return expectResult({ outcome: 'refused, repaired', exitCode, wentOnFrom }, nothingLost);
  },
};

/** A file of the database is lost, cut or changed. */
export const fileScenarios: Scenarios = {
  ...current,
  ...manifest,
  ...log,
  ...table,
  ...whileItRuns,
  ...others,
};
