import assert from 'node:assert/strict';
import type { Browser, Page } from 'playwright-core';
import { eventually } from '../support/program.js';
import { lookAt } from './looks.js';
import { holds } from './Stage.js';

export class BrowserPage {
  readonly page: Page;
  /** A machine that is starved may keep the indexing thread from answering in time. */
  expected = /status of 503/;
  readonly requested: string[] = [];
  readonly #complaints: string[] = [];
  readonly #url: string;
  readonly #screenshots: string | undefined;

  private constructor(page: Page, url: string, screenshots: string | undefined) {
    this.page = page;
    this.#url = new URL('.', url).href;
    this.#screenshots = screenshots;
    page.on('request', (request) => {
      if (!request.url().startsWith('data:')) this.requested.push(request.url());
    });
    page.on('pageerror', (error) => this.#complaints.push(String(error)));
    page.on('console', (message) => {
      if (message.type() === 'error') this.#complaints.push(message.text());
    });
  }

  /** In a profile of its own. */
  static async open(browser: Browser, url: string, screenshots?: string): Promise<BrowserPage> {
    const page = await browser.newPage({ viewport: null });
    const opened = new BrowserPage(page, url, screenshots);
    await page.goto(url);
    return opened;
  }

  text(): Promise<string> {
    return this.page.innerText('body');
  }

  strip(): Promise<string[]> {
    return this.run(`return [...document.querySelectorAll('.strip .segment')].map((each) => each.title);`);
  }

  /** Runs a script in the page, whose value, awaited, comes back as JSON has it. */
  run<T>(script: string): Promise<T> {
    return this.page.evaluate<T>(`(async () => { ${script} })()`);
  }

  /** Into the field that a selector names, by keyboard, and Enter. */
  async enter(field: string, text: string): Promise<void> {
    await this.page.focus(field);
    await this.page.keyboard.insertText(text);
    await this.page.keyboard.press('Enter');
  }

  async says(...words: readonly (string | RegExp)[]): Promise<void> {
    let text = '';
    const deadline = setTimeout(() => {
      throw new Error(`the page does not say ${words.map(String).join(', ')}; it says:\n${text}`);
    }, 120_000);
    await eventually(async () => {
      text = await this.text();
      return words.every((word) => (typeof word === 'string' ? text.includes(word) : word.test(text)));
    });
    clearTimeout(deadline);
  }

  /** A state is there: pictures of it, and what axe says. */
  async isFine(state: string): Promise<void> {
    await lookAt(this.page, state, this.#screenshots);
    holds(`the page, ${state}: axe finds nothing, in light and dark, on a desk and on a phone`);
  }

  /** Nothing was loaded from elsewhere, and nothing went wrong but for what is expected. */
  neverComplained(): void {
    const strangers = this.requested.filter((url) => !url.startsWith(this.#url));
    const unexpected = this.#complaints.filter((complaint) => !this.expected.test(complaint));
    assert.deepEqual({ strangers, unexpected }, { strangers: [], unexpected: [] });
  }
}
