// The daemon's own pages, and pages of other origins, in a real browser against a real daemon (`npm run test:browser`). It needs a
// Chromium on the path, or named in CHROMIUM. Prints a line for each thing that holds, and exits 1 if one does not.
//
//   npm run test:browser -- --screenshots DIR    (keeps pictures of the status page in every state, and of /docs)
//   npm run test:browser -- --only following     (one scene; --list names them)

import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium } from 'playwright-core';
import { chosenFrom, conclude, outcomeOf, playEach } from '../support/campaign.js';
import { withCleanup } from '../support/cleanup.js';
import { crossOrigin } from './crossOrigin.js';
import { full } from './fullScene.js';
import { Stage } from './Stage.js';
import { scenes } from './statusScenes.js';
import { scriptOptions } from '../support/scriptOptions.js';

const { values } = scriptOptions({
  options: { screenshots: { type: 'string' }, only: { type: 'string' }, list: { type: 'boolean' } },
});

const all = { origins: crossOrigin, ...scenes, full };

const named = Object.entries(all).map(([name, play]) => ({ name, play }));
if (values.list === true) console.log(named.map(({ name }) => name).join('\n'));
else {
  const chosen = chosenFrom(named, values.only);
  const browser = await chromium.launch({ executablePath: findChromium(), args: ['--window-size=1200,900'] });
  console.log(`Chromium ${browser.version()}`);
  const played = await playEach(chosen, async ({ play }) => {
    await withCleanup(() => play(new Stage(browser, values.screenshots)));
    return 'holds';
  }).finally(() => browser.close());
  conclude(outcomeOf(played, 'scenes'));
}

function findChromium(): string {
  const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
  const places = (process.env['PATH'] ?? '').split(delimiter);
  const installed = names.flatMap((name) => places.map((place) => join(place, name))).find(existsSync);
  const found = process.env['CHROMIUM'] ?? installed;
  if (found !== undefined) return found;
  throw new Error(
    'No Chromium is installed. Install one (Debian: apt-get install chromium), or name its program in CHROMIUM.',
  );
}
