import assert from 'node:assert/strict';
import { lastingPort } from '../support/lastingPort.js';
import { eventually, runProgram, scratchDirectory } from '../support/program.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';
import { holds } from './report.js';
import type { Scene } from './scene.js';
import { StatusPage } from './StatusPage.js';

/** What a browser says of a daemon that is gone. */
const GONE = /Failed to load resource/;

/** The daemon goes away, hangs, and comes back: the page says so, and goes on by itself. */
const gone: Scene = async (browser, options) => {
  const devnet = await devnetForTest({ seed: 3, startHead: 300, blockIntervalMs: 500 });
  const dataDir = scratchDirectory();
  const port = String(await lastingPort());
  const args = startArguments(devnet, dataDir, '--start-height', 'root').map((arg, index, all) =>
    all[index - 1] === '--api-port' ? port : arg,
  );
  const first = await startDaemon(args);
  await first.statusUntil(({ ready }) => ready);
  const page = await StatusPage.open(browser, first.apiUrl, options);
  await page.says('Ready');

  first.program.child.kill('SIGSTOP');
  await page.says('No answer', 'gave no answer within 5 s', 'last known status');
  first.program.child.kill('SIGCONT');
  await page.says(/\bReady\b/);
  holds('the page tells of a daemon that hangs, and goes on when it answers');

  await first.program.stop('SIGKILL');
  await page.says('No answer', /The daemon has not answered since \d+:\d+/, 'Nothing listens at its address');
  await page.isFine('gone');
  const second = await startDaemon(args);
  await page.says(/\bReady\b/);
  assert.ok(!(await page.text()).includes('has not answered'));
  holds('the page tells of a daemon that is gone, since when, and goes on by itself when it is back');
  page.neverComplained(second.apiUrl, GONE);
};

/** Finding a height and an id by keyboard alone: why it is here, and the document. */
const found: Scene = async (browser, options) => {
  const devnet = await devnetForTest({ seed: 3, profile: 'dense', startHead: 300, paused: true });
  const daemon = await startDaemon(startArguments(devnet, scratchDirectory(), '--start-height', 'root'));
  await daemon.reaches(300);
  const page = await StatusPage.open(browser, daemon.apiUrl, options);
  await page.says('Ready');
  await page.page.run("document.querySelector('#find').focus();");
  await page.type('1,23');
  await page.press('Enter');
  await page.says('indexed', '/lookup/block/123', '"collections"');
  const { body } = (await daemon.api('/lookup/block/123')) as {
    readonly body: { readonly collections: readonly { readonly collection_id: string }[] };
  };
  const id = body.collections[0]?.collection_id ?? '';
  await page.page.run(`location.hash = '#find=${id}';`);
  await page.says(id, '"transactions"');
  await page.isFine('found');
  await page.page.run('history.back();');
  await page.says('/lookup/block/123');
  await page.page.run("location.hash = '#find=nonsense';");
  await page.says('nonsense', /refuses/);
  await page.page.run(
    "[...document.querySelectorAll('button')].find((each) => each.innerText === 'Close').click();",
  );
  assert.equal(await page.page.run<number>("return document.querySelectorAll('.found').length;"), 0);
  holds('what is looked for stands in the address: links, the back button and Close work');
  const explained = await runProgram(['explain', '123', '--api-port', new URL(daemon.apiUrl).port]);
  assert.equal(explained.code, 0);
  page.neverComplained(daemon.apiUrl, GONE);
};

/** A daemon that serves two requests per second to an address: the page gets along. */
const limited: Scene = async (browser, options) => {
  const devnet = await devnetForTest({ seed: 3, startHead: 300, blockIntervalMs: 300 });
  const flags = ['--start-height', 'root', '--api-rate-per-second-per-address', '2'];
  const daemon = await startDaemon(startArguments(devnet, scratchDirectory(), ...flags));
  await daemon.reaches(300);
  const page = await StatusPage.open(browser, daemon.apiUrl, options);
  await page.says(/\bReady\b/, '1 of 1 healthy');
  const before = await page.text();
  await eventually(async () => {
    const now = await page.text();
    assert.ok(!now.includes('No answer'), now);
    return now === before ? undefined : true;
  });
  holds('the page gets along with a rate limit for its address');
};

/** What a page does that stays open, and is used. */
export const stayingScenes = { gone, found, limited };
