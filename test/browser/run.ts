// The daemon's own pages, and pages of other origins, in a real browser against a real daemon (`npm run test:browser`). It needs a
// Chromium on the path, or named in CHROMIUM. Prints a line for each thing that holds, and exits 1 if one does not.
//
//   npm run test:browser -- --screenshots DIR    (keeps pictures of the status page in every state, and of /docs)
//   npm run test:browser -- --only following     (one scene; --list names them)

import { chosenFrom, conclude, outcomeOf, playEach } from '../support/campaign.js';
import { withCleanup } from '../support/cleanup.js';
import { Chromium, findChromium } from './Chromium.js';
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
  const browser = await Chromium.start(findChromium());
  console.log(await browser.version());
  const played = await playEach(chosen, async ({ play }) => {
    await withCleanup(() => play(new Stage(browser, values.screenshots)));
    return 'holds';
  }).finally(() => browser.close());
  conclude(outcomeOf(played, 'scenes'));
}
