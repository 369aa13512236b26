import assert from 'node:assert/strict';
import { eventually } from '../support/program.js';
import type { Page } from './Chromium.js';
import { lookAt } from './looks.js';
import { holds } from './Stage.js';

const ENTER = { key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 13, text: '\r' };

export class StatusPage {
  readonly page: Page;
  /** A machine that is starved may keep the indexing thread from answering in time. */
  expected = /status of 503/;
  readonly #url: string;
  readonly #screenshots: string | undefined;

  constructor(page: Page, url: string, screenshots: string | undefined) {
    this.page = page;
    this.#url = url;
    this.#screenshots = screenshots;
  }

  text(): Promise<string> {
    return this.page.run<string>('return document.body.innerText;');
  }

  strip(): Promise<string[]> {
    const titles = "[...document.querySelectorAll('.strip .segment')].map((each) => each.title)";
    return this.page.run(`return ${titles};`);
  }

  /** Into the field that a selector names, and Enter. */
  async enter(field: string, text: string): Promise<void> {
    await this.page.run(`document.querySelector('${field}').focus();`);
    await this.page.call('Input.insertText', { text });
    for (const type of ['keyDown', 'keyUp'])
      await this.page.call('Input.dispatchKeyEvent', { type, ...ENTER });
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
    const { complaints, requested } = this.page;
    const strangers = requested.filter((url) => !url.startsWith('data:') && !url.startsWith(this.#url));
    const unexpected = complaints.filter((complaint) => !this.expected.test(complaint));
    assert.deepEqual({ strangers, unexpected }, { strangers: [], unexpected: [] });
  }
}
