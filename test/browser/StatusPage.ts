import assert from 'node:assert/strict';
import { eventually } from '../support/program.js';
import type { Page } from './Chromium.js';
import { lookAt } from './looks.js';
import { holds } from './Stage.js';

/** The keys that a test presses. */
const keys = {
  Tab: { key: 'Tab', code: 'Tab', windowsVirtualKeyCode: 9 },
  Enter: { key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 13, text: '\r' },
  ArrowRight: { key: 'ArrowRight', code: 'ArrowRight', windowsVirtualKeyCode: 39 },
  End: { key: 'End', code: 'End', windowsVirtualKeyCode: 35 },
} as const;

/** The status page of a daemon in a tab. */
export class StatusPage {
  readonly page: Page;
  readonly #url: string;
  readonly #screenshots: string | undefined;

  constructor(page: Page, url: string, screenshots: string | undefined) {
    this.page = page;
    this.#url = url;
    this.#screenshots = screenshots;
  }

  /** All that a reader sees. */
  text(): Promise<string> {
    return this.page.run<string>('return document.body.innerText;');
  }

  /** What the strip of the chain says of its stretches. */
  strip(): Promise<string[]> {
    return this.page.run<string[]>(
      "return [...document.querySelectorAll('.strip .segment')].map((each) => each.title);",
    );
  }

  /** Waits until the text says all of this. */
  async says(...words: readonly (string | RegExp)[]): Promise<void> {
    let text = '';
    const deadline = setTimeout(() => {
      throw new Error(`the page does not say ${words.map(String).join(', ')}; it says:\n${text}`);
    }, 120_000);
    await eventually(async () => {
      text = await this.text();
      const has = (word: string | RegExp): boolean =>
        typeof word === 'string' ? text.includes(word) : word.test(text);
      return words.every(has);
    });
    clearTimeout(deadline);
  }

  async press(...names: readonly (keyof typeof keys)[]): Promise<void> {
    for (const name of names) {
      await this.page.call('Input.dispatchKeyEvent', { type: 'keyDown', ...keys[name] });
      await this.page.call('Input.dispatchKeyEvent', { type: 'keyUp', ...keys[name] });
    }
  }

  async type(text: string): Promise<void> {
    await this.page.call('Input.insertText', { text });
  }

  /** A state is there: pictures of it, and what axe says. */
  async isFine(state: string): Promise<void> {
    await lookAt(this.page, state, this.#screenshots);
    holds(`the page, ${state}: axe finds nothing, in light and dark, on a desk and on a phone`);
  }

  /**
   * Nothing was loaded from elsewhere, and nothing went wrong but for what is expected. A machine that is starved may keep the
   * indexing thread from answering in time.
   */
  neverComplained(expected = /status of 503/): void {
    const strangers = this.page.requested.filter(
      (url) => !url.startsWith('data:') && !url.startsWith(this.#url),
    );
    assert.deepEqual(strangers, []);
    assert.deepEqual(
      this.page.complaints.filter((complaint) => !expected.test(complaint)),
      [],
    );
  }
}
