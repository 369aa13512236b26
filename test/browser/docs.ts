import assert from 'node:assert/strict';
import { scratchDirectory } from '../support/program.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';
import type { Chromium } from './Chromium.js';
import { lookAt } from './looks.js';
import { holds } from './report.js';
import type { SceneOptions } from './scene.js';

/** The page of all routes. */
export async function docs(browser: Chromium, { screenshots }: SceneOptions): Promise<void> {
  const devnet = await devnetForTest({ startHead: 20, paused: true });
  const daemon = await startDaemon(startArguments(devnet, scratchDirectory(), '--start-height', 'root'));
  const page = await browser.open(`${daemon.apiUrl}/docs`);
  const text = await page.run<string>('return document.body.innerText;');
  assert.ok(text.includes('GET /v1/blocks/{id}/payload'), text);
  assert.deepEqual(page.complaints, []);
  assert.deepEqual(
    page.requested.filter((url) => !url.startsWith('data:')),
    [`${daemon.apiUrl}/docs`, `${daemon.apiUrl}/page/style.css`],
  );
  await lookAt(page, 'docs', screenshots);
  const linked = await browser.open(`${daemon.apiUrl}/docs#Block`);
  assert.equal(await linked.run("return document.querySelector('#Block').parentElement.open;"), true);
  holds('/docs renders with nothing loaded from elsewhere, axe finds nothing, and links open what they name');
}
