import assert from 'node:assert/strict';
import { servedBelow } from '../support/prefixProxy.js';
import { scratchDirectory } from '../support/program.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';
import { holds } from './report.js';
import type { Scene } from './scene.js';
import { StatusPage } from './StatusPage.js';

/** A daemon behind a proxy that serves it below a path: the page, what it loads and its links. */
export const prefix: Scene = async (browser, options) => {
  const devnet = await devnetForTest({ seed: 3, profile: 'dense', startHead: 300, blockIntervalMs: 400 });
  const daemon = await startDaemon(startArguments(devnet, scratchDirectory(), '--start-height', 'root'));
  await daemon.statusUntil(({ ready, lag }) => ready && (lag ?? 9) < 3);
  const { port } = new URL(daemon.apiUrl);
  for (const isReported of [false, true]) {
    const url = await servedBelow('/flow/mainnet', { port: Number(port) }, { isReported });
    const page = await StatusPage.open(browser, `${url}/`, options);
    await page.says('Ready', '1 of 1 healthy', /Latest indexed\s+\d{3}/);
    await page.page.run("location.hash = '#find=123';");
    await page.says('/lookup/block/123', '"collections"');
    const links = await page.page.run<string[]>('return [...document.links].map(({ href }) => href);');
    assert.ok(links.length > 4, `the page has ${links.length} links`);
    for (const link of links) {
      assert.ok(link.startsWith(`${url}/`), `${link} leads out of ${url}`);
      assert.equal((await fetch(link)).status, 200, link);
    }
    await page.page.go(`${url}/docs`);
    await page.says('HTTP routes', 'GET /v1/blocks');
    await page.page.go(await page.page.run<string>('return document.links[0].href;'));
    await page.says('Ready');
    page.neverComplained(`${url}/`);
  }
  holds('behind a path prefix the page loads, fills and links, told of it or not');
};
