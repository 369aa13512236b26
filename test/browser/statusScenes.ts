import assert from 'node:assert/strict';
import type { DevnetOptions, FaultRule } from '../../src/devnet/index.js';
import type { StatusDocument } from '../../src/api/index.js';
import { devnetForTest, eventually, lastingPort, scratchDirectory } from '../support/daemons.js';
import { startArguments, startDaemon } from '../support/daemons.js';
import { servedBelow } from '../support/prefixProxy.js';
import { TestSecrets } from '../support/secretFiles.js';
import { holds, type Scene } from './Stage.js';

const bodies = ['GetFullCollectionByID', 'GetCollectionByID', 'GetTransaction'];

const empty: Scene = async (stage) => {
  const chain = { seed: 3, startHead: 1_000, paused: true };
  const { daemon, page } = await stage.opened(chain, ['--start-height', '5000']);
  await page.says('Not ready', 'start_height_ahead', 'Nothing yet', 'starts at 5,000', '1 of 1 healthy');
  await page.isFine('empty');
  // Whoever reads the log goes away.
  daemon.program.child.stdout?.destroy();
  await page.says('The log cannot be written to standard output', 'Its reader has gone', /lines? lost/);
};

const following: Scene = async (stage) => {
  const slow: FaultRule = { method: 'GetFullCollectionByID', fault: 'latency', delayMs: 60 };
  const chain: DevnetOptions = {
    ...{ seed: 3, profile: 'dense', startHead: 158_000_400, rootHeight: 158_000_000 },
    ...{ blockIntervalMs: 400, sealedLag: 2 },
  };
  const [one, two] = [await devnetForTest({ ...chain, faults: [slow] }), await devnetForTest(chain)];
  const flags = ['--access-node', two.address, '--access-rate-per-second', '400'];
  const { page } = await stage.opened(one, flags, ({ ready, lag }) => ready && (lag ?? 9) < 3);
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
};

const behind: Scene = async (stage) => {
  const chain = { seed: 3, profile: 'mixed', startHead: 100_000_000, blockIntervalMs: 1_000 } as const;
  const isOnItsWay = ({ latestIndexed, eta }: StatusDocument) => (latestIndexed ?? 0) > 500 && eta !== null;
  const { page } = await stage.opened(chain, ['--window', '512'], isOnItsWay);
  await page.says('Catching up', 'behind', /Behind\s+99,9\d\d,\d{3}/, /\d+ d( \d+ h)?\s+at /, 'under 0.1 %');
  await page.isFine('far-behind');
};

const filling: Scene = async (stage) => {
  const slow: FaultRule = { method: 'GetBlockByHeight', fault: 'latency', delayMs: 150 };
  const silent = { streams: false, executionData: false, faults: [slow] };
  const chain: DevnetOptions = { seed: 3, startHead: 60_000, paused: true, ...silent };
  const flags = ['--start-height', '52000', '--backfill-window', '8', '--backfill-parallel-ranges', '3'];
  const isBegun = ({ backfill }: StatusDocument) =>
    backfill.ranges.some(({ next, from }) => next > from + 20);
  const { page } = await stage.opened(chain, [...flags, '--backfill', '20000..45000'], isBegun);
  await page.says('being filled in', 'heights of history to fill in', 'planned');
  const labels = (await page.strip()).map((label) => label.replace(/^.*: /, ''));
  for (const kind of ['being filled in', 'planned', 'not indexed, not planned', 'indexed'])
    assert.ok(labels.includes(kind), `${kind} is among ${labels.join(', ')}`);
  await page.run("document.querySelector('.panel details').open = true;");
  await page.says(/^Heights 5\d,\d{3} to 60,000 /m);
  await page.isFine('filling-in');
};

/** A collection that nobody gives: the page says what is missing, and who refuses what. */
const stuck: Scene = async (stage) => {
  const faults = bodies.map((method): FaultRule => ({
    ...{ method, fault: 'error', code: 'INTERNAL', message: 'no disk: /var/lib/flow is read-only' },
    ...{ fromHeight: 120, toHeight: 160, every: 1 },
  }));
  const chain = { seed: 3, profile: 'dense', startHead: 2_000, paused: true, faults } as const;
  const isStuck = ({ oldestMissing, reasons }: StatusDocument) =>
    (oldestMissing?.ageSeconds ?? 0) > 11 && reasons.length > 1;
  const { page } = await stage.opened(chain, ['--no-edi'], isStuck);
  await page.says('Not ready', 'upstream_refusing', 'Oldest missing collection', 'no disk', 'held up, see');
  await page.isFine('stuck');
  // The link of the oldest missing collection opens its explanation.
  await page.page.click('.oldest a');
  await page.says('fetching', '"attempts"');
  assert.match(await page.page.innerText('.found'), /no disk/);
  await page.isFine('found-missing');
};

/** Nodes of all kinds: sound, lying, refusing, limiting, gone. */
const nodes: Scene = async (stage) => {
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
  const { page } = await stage.opened(sound, [...flags, '--no-edi'], ({ endpoints }) => {
    const [, lying, refusing, limited, gone] = endpoints;
    return (
      lying?.state === 'set_aside' &&
      (refusing?.calls.length ?? 0) > 0 &&
      limited?.limits.some(({ isLearned }) => isLearned) === true &&
      gone?.state === 'unknown'
    );
  });
  await page.says('set aside', /Set aside until \d+:\d+/, 'learned from its answers', 'no sound answer yet');
  await page.isFine('nodes');
};

const down: Scene = async (stage) => {
  const chain = { seed: 3, startHead: 300, blockIntervalMs: 500 } as const;
  const [one, two] = [await devnetForTest(chain), await devnetForTest(chain)];
  const { page } = await stage.opened(one, ['--access-node', two.address], ({ ready }) => ready);
  await page.says('Ready');
  await Promise.all([one.kill(), two.kill()]);
  await page.says('Not ready', 'upstream_unreachable', '0 of 2 healthy', 'not confirmed for');
  await page.isFine('every-node-down');
};

/** What a browser says of a daemon that is gone. */
const GONE = /Failed to load resource/;

/** The daemon goes away, hangs, and comes back: the page says so, and goes on by itself. */
const gone: Scene = async (stage) => {
  const devnet = await devnetForTest({ seed: 3, startHead: 300, blockIntervalMs: 500 });
  const dataDir = scratchDirectory();
  const port = String(await lastingPort());
  const args = startArguments(devnet, dataDir, '--start-height', 'root').map((arg, index, all) =>
    all[index - 1] === '--api-port' ? port : arg,
  );
  const first = await startDaemon(args);
  await first.statusUntil(({ ready }) => ready);
  const page = await stage.page(first.apiUrl);
  page.expected = GONE;
  await page.says('Ready');

  first.program.child.kill('SIGSTOP');
  await page.says('No answer', 'gave no answer within 5 s', 'last known status');
  first.program.child.kill('SIGCONT');
  await page.says(/\bReady\b/);
  holds('the page tells of a daemon that hangs, and goes on when it answers');

  await first.program.stop('SIGKILL');
  await page.says('No answer', /The daemon has not answered since \d+:\d+/, 'Nothing listens at its address');
  await page.isFine('gone');
  await startDaemon(args);
  await page.says(/\bReady\b/);
  assert.ok(!(await page.text()).includes('has not answered'));
  holds('the page tells of a daemon that is gone, since when, and goes on by itself when it is back');
};

/** Finding a height and an id by keyboard alone: why it is here, and where its document is. */
const found: Scene = async (stage) => {
  const chain = { seed: 3, profile: 'dense', startHead: 300, paused: true } as const;
  const { daemon, page } = await stage.opened(chain, [], ({ latestIndexed }) => latestIndexed === 300);
  page.expected = GONE;
  await page.says('Ready');
  await page.enter('#find', '1,23');
  await page.says('indexed', '/lookup/block/123', '"summary"');
  await page.run("document.querySelector('pre').remove();");
  await page.enter('#find', '');
  await page.says('"summary"');
  holds('what is looked for again is asked for again');
  const { body } = (await daemon.api('/lookup/block/123')) as {
    readonly body: { readonly collections: readonly { readonly collection_id: string }[] };
  };
  const id = body.collections[0]?.collection_id ?? '';
  await page.run(`location.hash = '#find=${id}';`);
  await page.says(`/lookup/collection/${id}`);
  await page.isFine('found');
  await page.page.goBack();
  await page.says('/lookup/block/123');
  await page.run("location.hash = '#find=100%';");
  await page.says('100%', /refuses/);
  await page.page.getByRole('button', { name: 'Close' }).click();
  assert.equal(await page.page.locator('.found').count(), 0);
  holds('what is looked for stands in the address: links, the back button and Close work');
};

const limited: Scene = async (stage) => {
  const chain = { seed: 3, startHead: 300, blockIntervalMs: 300 };
  const { daemon, devnet } = await stage.daemon(chain, ['--api-rate-per-second-per-address', '2']);
  await daemon.reaches(devnet.node.head.finalized);
  const page = await stage.page(daemon.apiUrl);
  page.expected = /status of (429|503)/;
  await page.says(/\bReady\b/, '1 of 1 healthy');
  const before = await page.text();
  await eventually(async () => {
    const now = await page.text();
    assert.ok(!now.includes('No answer'), now);
    return now === before ? undefined : true;
  });
  holds('the page gets along with a rate limit for its address');
};

const TOKEN = 'a-token-for-the-operator';

/** A daemon that wants a token: the page asks for it, by keyboard alone, and keeps it for its tab. */
const guarded: Scene = async (stage) => {
  const chain = { seed: 3, startHead: 300, blockIntervalMs: 500 };
  const { tokensFile } = new TestSecrets(`${TOKEN} operator\n`);
  const devnet = await devnetForTest(chain);
  const flags = ['--start-height', 'root', '--api-tokens-file', tokensFile];
  const daemon = await startDaemon(startArguments(devnet, scratchDirectory(), ...flags));
  await daemon.reaches(300);
  const page = await stage.page(daemon.apiUrl);
  page.expected = /status of (401|503)/;
  const why = ['only to callers with a bearer token', 'but the request has none'];
  await page.says('Token wanted', ...why, 'kept until this tab is closed');
  await page.isFine('token');

  await page.enter('#token', 'not-the-token-that-is-wanted');
  await page.says('Token wanted', 'this bearer token is not known here');
  await page.isFine('token-refused');

  await page.enter('#token', TOKEN);
  await page.says(/\bReady\b/, /Latest indexed\s+\d{3}/);
  assert.equal(await page.page.locator('#token').count(), 0, 'the page still asks for the token');
  await page.run("location.hash = '#find=123';");
  await page.says('/lookup/block/123', '"summary"');
  await page.page.goto(daemon.apiUrl);
  await page.says(/\bReady\b/);
  holds('the page asks for the token that the daemon wants, says that another is wrong, and keeps it');
};

/** A daemon behind a proxy that serves it below a path: the page, what it loads and its links. */
const prefix: Scene = async (stage) => {
  const chain = { seed: 3, profile: 'dense', startHead: 300, blockIntervalMs: 400 } as const;
  const { daemon } = await stage.daemon(chain, [], ({ ready, lag }) => ready && (lag ?? 9) < 3);
  const { port } = new URL(daemon.apiUrl);
  const url = await servedBelow('/flow/mainnet', { port: Number(port) });
  const page = await stage.page(`${url}/`);
  await page.says('Ready', '1 of 1 healthy', /Latest indexed\s+\d{3}/);
  await page.run("location.hash = '#find=123';");
  await page.says('/lookup/block/123', '"summary"');
  const links = await page.run<string[]>('return [...document.links].map(({ href }) => href);');
  assert.ok(links.length > 4, `the page has ${links.length} links`);
  for (const link of links) {
    assert.ok(link.startsWith(`${url}/`), `${link} leads out of ${url}`);
    assert.equal((await fetch(link)).status, 200, link);
  }
  await page.page.goto(`${url}/docs`);
  await page.says('HTTP routes', 'GET /v1/blocks');
  await page.page.locator('a').first().click();
  await page.says('Ready');
  holds('behind a path prefix the page loads, fills and links');
};

/** An indexer that another one feeds: the peer is among the sources, and when it goes the page says so. */
const fed: Scene = async (stage) => {
  const slow: FaultRule = { method: 'GetFullCollectionByID', fault: 'latency', delayMs: 100 };
  const chain = { seed: 3, profile: 'dense', startHead: 1_200, blockIntervalMs: 500, sealedLag: 0 } as const;
  const isThere = ({ latestIndexed }: StatusDocument) => (latestIndexed ?? 0) >= 1_200;
  const { daemon: source, devnet } = await stage.daemon({ ...chain, faults: [slow] }, ['--no-edi'], isThere);
  const flags = ['--no-edi', '--peer', source.grpcAddress];
  const { page } = await stage.opened(devnet, flags, ({ lastHour, lag, sources }) => {
    return lastHour.peer.first > 100 && (lag ?? 9) < 3 && sources.peer.state === 'following';
  });
  await page.says(/Peer stream\s+First for [\d.]+ %\. Follows /, source.grpcAddress, '1 of 1 healthy');
  await page.says('Peers, which give collections and nothing else');
  await page.isFine('fed');

  await source.program.stop('SIGKILL');
  await page.says(/(Does not come|Being connected): .*ECONNREFUSED/);
  await page.isFine('peer-gone');
};

const docs: Scene = async (stage) => {
  const { daemon } = await stage.daemon({ startHead: 20, paused: true });
  const page = await stage.page(`${daemon.apiUrl}/docs`);
  await page.says('GET /v1/blocks/{id}/payload');
  assert.deepEqual(page.requested, [`${daemon.apiUrl}/docs`, `${daemon.apiUrl}/page/style.css`]);
  await page.isFine('docs');
  await page.run("for (const each of document.querySelectorAll('details')) each.open = true;");
  await page.isFine('docs-unfolded');
  const linked = await stage.page(`${daemon.apiUrl}/docs#Block`);
  assert.equal(await linked.run("return document.querySelector('#Block').parentElement.open;"), true);
  holds('/docs renders with nothing loaded from elsewhere, axe finds nothing, and links open what they name');
};

export const scenes = {
  ...{ docs, empty, following, behind, filling, stuck, nodes, down },
  ...{ gone, found, limited, guarded, prefix, fed },
};
