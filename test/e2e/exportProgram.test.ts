import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { seededRandom } from '../../src/runtime/index.js';
import { eventually, runProgram, scratchDirectory, startProgram } from '../support/program.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';
import { storeFlags } from '../support/storeDump.js';

/** `npm run test:followers` kills twenty times. */
const ROUNDS = Number(process.env['FOLLOWER_ROUNDS'] ?? 3);
const ROUND_TIMEOUT_MS = 60_000;
const STEP = 40;
const FIRST = 100;
const SINK = join(import.meta.dirname, '../support/sinkProgram.mjs');

const begin = async (head: number) => {
  const devnet = await devnetForTest({
    ...{ seed: 22, rootHeight: FIRST, startHead: head, paused: true, sealedLag: 0, profile: 'mixed' },
  });
  const dataDir = scratchDirectory();
  const [file, state] = ['sunk.ndjson', 'state.json'].map((name) => join(scratchDirectory(), name)) as [
    string,
    string,
  ];
  const feed = (...args: string[]) =>
    startProgram([
      ...['export', '--follow', '--exec', process.execPath, '--state', state, ...storeFlags(dataDir)],
      ...['--', SINK, file, ...args],
    ]);
  return {
    devnet,
    dataDir,
    file,
    state,
    feed,
    start: startArguments(devnet, dataDir, '--start-height', 'root'),
  };
};

/** The last height that is acknowledged. */
function doneOf(state: string): number {
  if (!existsSync(state)) return -1;
  const { done } = JSON.parse(readFileSync(state, 'utf8')) as {
    readonly done: readonly { height: number }[];
  };
  return done[0]?.height ?? -1;
}

const reaches = (state: string, height: number) =>
  eventually(() => (doneOf(state) >= height ? true : undefined));

it(
  `feeds a program exactly what is indexed, through ${ROUNDS} kills and a rewind`,
  async () => {
    const { devnet, dataDir, file, state, feed, start } = await begin(FIRST + STEP);
    const random = seededRandom(9);
    let daemon = await startDaemon(start);
    let head = FIRST + STEP;
    await daemon.reaches(head);
    for (let round = 0; round < ROUNDS; round += 1) {
      // Every other time it is the program that dies, in the middle of a write.
      const exporter = feed(...(round % 2 === 0 ? [] : [String(Math.floor(random.next() * STEP))]));
      head += STEP;
      devnet.node.head.set(head);
      const until = Math.max(doneOf(state), FIRST) + Math.floor(random.next() * STEP);
      await reaches(state, until);
      expect(await exporter.stop('SIGKILL')).toBe('SIGKILL');
    }
    const exporter = feed();
    // Something new, so that the last exporter has surely found the daemon before that is stopped.
    head += STEP;
    devnet.node.head.set(head);
    await reaches(state, head);

    const kept = head - STEP / 2;
    expect(await daemon.program.stop()).toBe(0);
    expect(await runProgram(['rewind', '--to', String(kept), '--yes', ...storeFlags(dataDir)])).toMatchObject(
      {
        code: 0,
      },
    );
    devnet.node.head.set(kept);
    daemon = await startDaemon(start);
    await exporter.sees(/told to forget everything above height/);
    await eventually(() => {
      const last = readFileSync(file, 'utf8').trimEnd().split('\n').at(-1) ?? '{}';
      return (JSON.parse(last) as { height: number }).height === kept ? true : undefined;
    });
    head += STEP;
    devnet.node.head.set(head);
    await reaches(state, head);
    expect(await exporter.stop()).toBe(0);
    expect(exporter.stderr).toContain(`acknowledged everything up to height ${head}`);
    await daemon.program.stop();

    const original = await runProgram(['export', '--quiet', ...storeFlags(dataDir)]);
    const lines = original.stdout.trimEnd().split('\n');
    expect(readFileSync(file, 'utf8').trimEnd().split('\n')).toEqual(lines.slice(0, -1));
  },
  (ROUNDS + 3) * ROUND_TIMEOUT_MS,
);

it('gives up a program that only dies, and refuses one that says something else, or cannot be run', async () => {
  const { dataDir, devnet, state, start } = await begin(FIRST + 5);
  expect(await runProgram([...start, '--stop-height', String(FIRST + 5)])).toMatchObject({ code: 0 });
  await devnet.close();
  const feed = (program: string, ...args: string[]) =>
    runProgram([
      ...['export', '--exec', program, '--state', state, '--quiet', ...storeFlags(dataDir), '--', ...args],
    ]);
  const script = (code: string) => feed(process.execPath, '-e', code);
  expect(await script('console.log("hello"); setTimeout(() => {}, 60_000)')).toMatchObject({
    ...{ code: 70, stderr: expect.stringContaining('The program wrote "hello"') as string },
  });
  expect(await feed('/nowhere/at/all')).toMatchObject({
    ...{ code: 64, stderr: expect.stringContaining('cannot be run') as string },
  });
  const whole = await script(
    `require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
       const { height, kind } = JSON.parse(line);
       if (kind === 'block') console.log(height);
     });`,
  );
  expect(whole).toMatchObject({ code: 0 });
  expect(doneOf(state)).toBe(FIRST + 5);
  // Nothing is left to do.
  const again = ['export', '--exec', process.execPath, '--state', state, '--to', String(FIRST + 5)];
  expect(await runProgram([...again, '--quiet', ...storeFlags(dataDir)])).toMatchObject({ code: 0 });
  const usages = [
    ['export', '--exec', process.execPath],
    ['export', '--state', state],
    ['export', 'what'],
    ['export', '--exec', process.execPath, '--state', state, '--output', 'x'],
  ];
  for (const usage of usages)
    expect(await runProgram([...usage, ...storeFlags(dataDir)])).toMatchObject({ code: 64 });
});
