import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import axe from 'axe-core';
import type { Page } from './Chromium.js';

const looks = [
  { name: 'light', scheme: 'light', width: 1_280, height: 900, isPhone: false },
  { name: 'dark', scheme: 'dark', width: 1_280, height: 900, isPhone: false },
  { name: 'phone', scheme: 'light', width: 390, height: 844, isPhone: true },
  { name: 'phone-dark', scheme: 'dark', width: 390, height: 844, isPhone: true },
  // A window of 1,280 pixels at 400 %, with a scrollbar.
  { name: 'zoomed', scheme: 'light', width: 320, height: 256, isPhone: false },
] as const;

interface Violation {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

/** Looks at a page in every way: nothing is wider than the screen or its card, and axe finds nothing. Keeps pictures where `directory` is given. */
export async function lookAt(page: Page, name: string, directory: string | undefined): Promise<void> {
  for (const look of looks) {
    await setLook(page, look);
    const where = `${name}, ${look.name}`;
    const tooWide = await page.run<string[]>(`
      const { clientWidth, scrollWidth } = document.documentElement;
      return [...document.querySelectorAll('body *')]
        .filter((each) => each.matches('.card') ? each.scrollWidth > each.clientWidth + 1 :
          scrollWidth > clientWidth && each.getBoundingClientRect().right > clientWidth + 1)
        .map((each) => each.outerHTML.slice(0, 120));`);
    assert.deepEqual(tooWide, [], `${where}: wider than the screen, or its card`);
    if (directory !== undefined) {
      mkdirSync(directory, { recursive: true });
      writeFileSync(join(directory, `${name}-${look.name}.png`), await page.screenshot());
    }
    await page.run(`if (globalThis.axe === undefined) { ${axe.source} }`);
    const { violations } = await page.run<{ readonly violations: readonly Violation[] }>(
      `const { violations } = await axe.run(document, { resultTypes: ['violations'] }); return { violations };`,
    );
    const found = violations.map(({ id, help, nodes }) => ({
      ...{ id, help },
      nodes: nodes.slice(0, 3).map(({ html, failureSummary }) => `${html} ${failureSummary ?? ''}`),
    }));
    assert.deepEqual(found, [], `${where}: what axe found`);
  }
  await setLook(page, looks[0]);
}

async function setLook(page: Page, look: (typeof looks)[number]): Promise<void> {
  const { scheme, width, height, isPhone } = look;
  const device = { width, height, mobile: isPhone, deviceScaleFactor: isPhone ? 2 : 1 };
  await page.call('Emulation.setDeviceMetricsOverride', device);
  await page.call('Emulation.setTouchEmulationEnabled', { enabled: isPhone });
  const features = [{ name: 'prefers-color-scheme', value: scheme }];
  await page.call('Emulation.setEmulatedMedia', { features });
  await page.run('await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));');
}
