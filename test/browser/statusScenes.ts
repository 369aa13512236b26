import assert from 'node:assert/strict';
import type { DevnetOptions, FaultRule } from '../../src/devnet/index.js';
import { eventually, scratchDirectory } from '../support/program.js';
import { lastingPort } from '../support/lastingPort.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';
import { holds } from './report.js';
import type { Scene } from './scene.js';
import { StatusPage } from './StatusPage.js';

/** Every call by which a collection can be had. */
const bodies = ['GetFullCollectionByID', 'GetCollectionByID', 'GetTransaction'];

/** Nothing is indexed: the chain has not come to the first height. */
const empty: Scene = async (browser, options) => {
  const devnet = await devnetForTest({ seed: 3, startHead: 1_000, paused: true });
  const daemon = await startDaemon(startArguments(devnet, scratchDirectory(), '--start-height', '5000'));
  const page = await StatusPage.open(browser, daemon.apiUrl, options);
  await page.says('Not ready', 'start_height_ahead', 'Nothing yet', 'starts at 5,000', '1 of 1 healthy');
  await page.isFine('empty');
  // Whoever reads the log goes away.
  daemon.program.child.stdout?.destroy();
  await page.says('The log cannot be written to standard output', 'Its reader has gone', /lines? lost/);
  page.neverComplained(daemon.apiUrl);
};

/** At the head of a living chain: new blocks appear by themselves. */
const following: Scene = async (browser, options) => {
  const slow: FaultRule = { method: 'GetFullCollectionByID', fault: 'latency', delayMs: 60 };
  const chain: DevnetOptions = {
    ...{ seed: 3, profile: 'dense', startHead: 158_000_400, rootHeight: 158_000_000 },
    ...{ blockIntervalMs: 400, sealedLag: 2 },
  };
  const [one, two] = [await devnetForTest({ ...chain, faults: [slow] }), await devnetForTest(chain)];
  const flags = ['--access-node', two.address, '--start-height', 'root', '--access-rate-per-second', '400'];
  const daemon = await startDaemon(startArguments(one, scratchDirectory(), ...flags));
  await daemon.statusUntil(({ ready, lag }) => ready && (lag ?? 9) < 3);
  const page = await StatusPage.open(browser, daemon.apiUrl, options);
  await page.says('Ready', '2 of 2 healthy', /Latest indexed\s+158,000,\d{3}\s+without a gap from/);
  const height = async (): Promise<string> =>
    /Latest indexed\s+([\d,]+)/.exec(await page.text())?.[1] ?? 'none';
  const before = await height();
  await eventually(async () => ((await height()) === before ? undefined : true));
  holds('the page shows each new block without being asked');
  await page.says(/collections in the last hour/, /(Execution data|Requests)\s+First for [\d.]+ %/);
  await page.isFine('following');
  const [segment] = await page.strip();
  assert.match(segment ?? '', /^Heights 158,000,000 to 158,\d{3},\d{3} \([\d,]+\): indexed$/);
  page.neverComplained(daemon.apiUrl);
};

/** A hundred million heights behind, and running. */
const behind: Scene = async (browser, options) => {
  const devnet = await devnetForTest({
    seed: 3,
    profile: 'mixed',
    startHead: 100_000_000,
    blockIntervalMs: 1_000,
  });
  const flags = ['--start-height', 'root', '--window', '512'];
  const daemon = await startDaemon(startArguments(devnet, scratchDirectory(), ...flags));
  await daemon.statusUntil(({ latestIndexed, eta }) => (latestIndexed ?? 0) > 500 && eta !== null);
  const page = await StatusPage.open(browser, daemon.apiUrl, options);
  await page.says('Catching up', 'behind', /Behind\s+99,9\d\d,\d{3}/, /\d+ d( \d+ h)?\s+at /, 'under 0.1 %');
  await page.isFine('far-behind');
  page.neverComplained(daemon.apiUrl);
};

/** History is filled in below, range by range. */
const filling: Scene = async (browser, options) => {
  const slow: FaultRule = { method: 'GetBlockByHeight', fault: 'latency', delayMs: 150 };
  const chain: DevnetOptions = { seed: 3, startHead: 60_000, paused: true, streams: false, faults: [slow] };
  const devnet = await devnetForTest({ ...chain, executionData: false });
  const dataDir = scratchDirectory();
  const flags = ['--start-height', '52000', '--backfill-window', '8', '--backfill-parallel-ranges', '3'];
  const daemon = await startDaemon(startArguments(devnet, dataDir, ...flags, '--backfill', '20000..45000'));
  await daemon.statusUntil(({ backfill }) => backfill.ranges.some(({ next, from }) => next > from + 20));
  const page = await StatusPage.open(browser, daemon.apiUrl, options);
  await page.says('being filled in', 'heights of history to fill in', 'planned');
  const labels = (await page.strip()).map((label) => label.replace(/^.*: /, ''));
  for (const kind of ['being filled in', 'planned', 'not indexed, not planned', 'indexed']) {
    assert.ok(labels.includes(kind), `${kind} is among ${labels.join(', ')}`);
  }
  await page.page.run("document.querySelector('.panel details').open = true;");
  await page.says(/^Heights 5\d,\d{3} to 60,000 /m);
  await page.isFine('filling-in');
  page.neverComplained(daemon.apiUrl);
};

/** A collection that nobody gives: the page says what is missing, and who refuses what. */
const stuck: Scene = async (browser, options) => {
  const faults = bodies.map((method): FaultRule => ({
    ...{ method, fault: 'error', code: 'INTERNAL', message: 'no disk: /var/lib/flow is read-only' },
    ...{ fromHeight: 120, toHeight: 160, every: 1 },
  }));
  const devnet = await devnetForTest({ seed: 3, profile: 'dense', startHead: 2_000, paused: true, faults });
  const daemon = await startDaemon(
    startArguments(devnet, scratchDirectory(), '--start-height', 'root', '--no-edi'),
  );
  await daemon.statusUntil(
    ({ oldestMissing, reasons }) => (oldestMissing?.ageSeconds ?? 0) > 11 && reasons.length > 1,
  );
  const page = await StatusPage.open(browser, daemon.apiUrl, options);
  await page.says(
    'Not ready',
    'upstream_refusing',
    'Oldest missing collection',
    'no disk',
    'held up, see above',
  );
  await page.isFine('stuck');
  await findMissing(page);
  page.neverComplained(daemon.apiUrl);
};

/** The link of the oldest missing collection opens its explanation. */
async function findMissing(page: StatusPage): Promise<void> {
  await page.page.run("document.querySelector('.oldest a').click();");
  await page.says('fetching', '"attempts"');
  const found = await page.page.run<string>("return document.querySelector('.found').innerText;");
  assert.match(found, /no disk/);
  await page.isFine('found-missing');
}

/** Nodes of all kinds: sound, lying, refusing, limiting, gone. */
const nodes: Scene = async (browser, options) => {
  const chain = { seed: 3, profile: 'dense', startHead: 100, blockIntervalMs: 300 } as const;
  const lies = bodies.map((method): FaultRule => ({ method, fault: 'wrong_body' }));
  const fails: FaultRule = { method: 'GetFullCollectionByID', fault: 'error', code: 'UNAVAILABLE' };
  const [sound, liar, failing, limiting] = [
    await devnetForTest(chain),
    await devnetForTest({ ...chain, faults: lies }),
    await devnetForTest({ ...chain, faults: [fails] }),
    await devnetForTest({ ...chain, ratePerSecond: 3 }),
  ];
  const others = [liar.address, failing.address, limiting.address, `127.0.0.1:${await lastingPort()}`];
  const flags = others.flatMap((address) => ['--access-node', address]);
  const daemon = await startDaemon(
    startArguments(sound, scratchDirectory(), ...flags, '--start-height', 'root', '--no-edi'),
  );
  await daemon.statusUntil(({ endpoints }) => {
    const [, lying, refusing, limited, gone] = endpoints;
    return (
      lying?.state === 'set_aside' &&
      (refusing?.calls.length ?? 0) > 0 &&
      limited?.limits.some(({ isLearned }) => isLearned) === true &&
      gone?.state === 'unknown'
    );
  });
  const page = await StatusPage.open(browser, daemon.apiUrl, options);
  await page.says('set aside', /Set aside until \d+:\d+/, 'learned from its answers', 'not heard of yet');
  await page.isFine('nodes');
  page.neverComplained(daemon.apiUrl);
};

/** Every node goes down under a daemon that was at the head. */
const down: Scene = async (browser, options) => {
  const chain = { seed: 3, startHead: 300, blockIntervalMs: 500 } as const;
  const [one, two] = [await devnetForTest(chain), await devnetForTest(chain)];
  const flags = ['--access-node', two.address, '--start-height', 'root'];
  const daemon = await startDaemon(startArguments(one, scratchDirectory(), ...flags));
  await daemon.statusUntil(({ ready }) => ready);
  const page = await StatusPage.open(browser, daemon.apiUrl, options);
  await page.says('Ready');
  await Promise.all([one.kill(), two.kill()]);
  await page.says('Not ready', 'upstream_unreachable', '0 of 2 healthy', 'not confirmed for');
  await page.isFine('every-node-down');
  page.neverComplained(daemon.apiUrl);
};

export const scenes = { empty, following, behind, filling, stuck, nodes, down };
