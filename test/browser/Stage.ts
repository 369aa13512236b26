import type { DevnetHandle, DevnetOptions } from '../../src/devnet/index.js';
import type { StatusDocument } from '../../src/api/index.js';
import { atEnd, devnetForTest, scratchDirectory, startArguments, startDaemon } from '../support/daemons.js';
import type { RunningDaemon } from '../support/daemons.js';
import type { Browser } from 'playwright-core';
import { BrowserPage } from './BrowserPage.js';

export type Scene = (stage: Stage) => Promise<void>;

export function holds(what: string): void {
  process.stdout.write(`ok  ${what}\n`);
}

export class Stage {
  readonly browser: Browser;
  readonly screenshots: string | undefined;

  constructor(browser: Browser, screenshots: string | undefined) {
    this.browser = browser;
    this.screenshots = screenshots;
  }

  /** A page of the daemon, which is to have nothing to complain of at the end of the scene. */
  async page(url: string): Promise<BrowserPage> {
    const page = await BrowserPage.open(this.browser, url, this.screenshots);
    atEnd(() => page.neverComplained());
    return page;
  }

  /** A daemon before a node of this chain, or before one that is there; once its status is so. */
  async daemon(
    chain: DevnetOptions | DevnetHandle,
    flags: readonly string[] = [],
    isSo: (status: StatusDocument) => boolean = () => true,
  ): Promise<{ readonly devnet: DevnetHandle; readonly daemon: RunningDaemon }> {
    const devnet = 'node' in chain ? chain : await devnetForTest(chain);
    const from = flags.includes('--start-height') ? [] : ['--start-height', 'root'];
    const daemon = await startDaemon(startArguments(devnet, scratchDirectory(), ...from, ...flags));
    await daemon.statusUntil(isSo);
    return { devnet, daemon };
  }

  async opened(...made: Parameters<Stage['daemon']>) {
    const { daemon, devnet } = await this.daemon(...made);
    return { daemon, devnet, page: await this.page(daemon.apiUrl) };
  }
}
