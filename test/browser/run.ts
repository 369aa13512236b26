// The daemon's own pages, and pages of other origins, in a real browser against a real daemon (`npm run test:browser`). It needs a
// Chromium on the path, or named in CHROMIUM. Prints a line for each thing that holds, and exits 1 at the first that does not.
//
//   npm run test:browser -- --screenshots DIR    (keeps pictures of the status page in every state, and of /docs)
//   npm run test:browser -- --only following     (one scene; --list names them)

import { withCleanup } from '../support/cleanup.js';
import { Chromium, findChromium } from './Chromium.js';
import { crossOrigin } from './crossOrigin.js';
import { docs } from './docs.js';
import { fed } from './fedScene.js';
import { full } from './fullScene.js';
import { guarded } from './guardedScene.js';
import { prefix } from './prefixScene.js';
import { scenes } from './statusScenes.js';
import { stayingScenes } from './stayingScenes.js';
import { scriptOptions } from '../support/scriptOptions.js';

const { values } = scriptOptions({
  options: { screenshots: { type: 'string' }, only: { type: 'string' }, list: { type: 'boolean' } },
});

const all = { origins: crossOrigin, docs, ...scenes, ...stayingScenes, guarded, prefix, fed, full };

if (values.list === true) process.stdout.write(`${Object.keys(all).join('\n')}\n`);
else await play();

async function play(): Promise<void> {
  try {
    const chosen = Object.entries(all).filter(([name]) => values.only === undefined || values.only === name);
    if (chosen.length === 0) throw new Error(`there is no scene ${values.only ?? ''}; --list names them`);
    const browser = await Chromium.start(findChromium());
    process.stdout.write(`${browser.version}\n`);
    try {
      for (const [, scene] of chosen) {
        await withCleanup(() => scene(browser, { screenshots: values.screenshots }));
      }
    } finally {
      await browser.close();
    }
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
    process.exitCode = 1;
  }
}
