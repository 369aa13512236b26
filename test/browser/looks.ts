import assert from 'node:assert/strict';
import { join } from 'node:path';
import axe from 'axe-core';
import type { Page } from 'playwright-core';

const looks = [
  { name: 'light', colorScheme: 'light', width: 1_280, height: 900, isPhone: false },
  { name: 'dark', colorScheme: 'dark', width: 1_280, height: 900, isPhone: false },
  { name: 'phone', colorScheme: 'light', width: 390, height: 844, isPhone: true },
  { name: 'phone-dark', colorScheme: 'dark', width: 390, height: 844, isPhone: true },
  // A window of 1,280 pixels at 400 %.
  { name: 'zoomed', colorScheme: 'light', width: 320, height: 256, isPhone: false },
] as const;

/** Looks at a page in every way: nothing is wider than the screen or its card, and axe finds nothing. Keeps pictures where `directory` is given. */
export async function lookAt(page: Page, name: string, directory: string | undefined): Promise<void> {
  // Only Chromium's own protocol makes a phone of a page that is open, for as long as the session lasts.
  const chromium = await page.context().newCDPSession(page);
  for (const { name: look, colorScheme, width, height, isPhone } of looks) {
    const device = { width, height, mobile: isPhone, deviceScaleFactor: isPhone ? 2 : 1 };
    await chromium.send('Emulation.setDeviceMetricsOverride', device);
    await chromium.send('Emulation.setTouchEmulationEnabled', { enabled: isPhone });
    await page.emulateMedia({ colorScheme });
    await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
    const where = `${name}, ${look}`;
    const tooWide = await page.evaluate<string[]>(`(() => {
      const { clientWidth, scrollWidth } = document.documentElement;
      return [...document.querySelectorAll('body *')]
        .filter((each) => each.matches('.card') ? each.scrollWidth > each.clientWidth + 1 :
          scrollWidth > clientWidth && each.getBoundingClientRect().right > clientWidth + 1)
        .map((each) => each.outerHTML.slice(0, 120));
    })()`);
    assert.equal(await page.evaluate('document.documentElement.clientWidth'), width);
    assert.deepEqual(tooWide, [], `${where}: wider than the screen, or its card`);
    if (directory !== undefined)
      await page.screenshot({ path: join(directory, `${name}-${look}.png`), fullPage: true });
    await page.evaluate(`globalThis.axe === undefined && (() => { ${axe.source} })()`);
    const { violations } = await page.evaluate<axe.AxeResults>(
      `axe.run(document, { resultTypes: ['violations'] })`,
    );
    const found = violations.map(({ id, help, nodes }) => ({
      ...{ id, help },
      nodes: nodes.slice(0, 3).map(({ html, failureSummary }) => `${html} ${failureSummary ?? ''}`),
    }));
    assert.deepEqual(found, [], `${where}: what axe found`);
  }
  await chromium.detach();
  await page.emulateMedia({ colorScheme: null });
}
