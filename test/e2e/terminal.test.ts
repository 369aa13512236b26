import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { atEnd } from '../support/cleanup.js';
import { eventually, Program, programPath } from '../support/program.js';
import { Screen } from '../support/screen.js';
import { ServedChain } from '../support/servedChain.js';
import { smallChain } from '../support/smallChain.js';

const size = { columns: 80, rows: 24 };
const fakeTty = join(import.meta.dirname, '../support/fakeTty.mjs');
const INDEXED = 'indexed      100 to 101: 2 heights, complete';

/** The real process, whose standard input and output pass for a terminal. */
class Watch {
  readonly chain: ServedChain;
  readonly program: Program;

  private constructor(chain: ServedChain) {
    this.chain = chain;
    this.program = new Program(
      ['status', '--watch', '--api-port', String(chain.port)],
      { TTY_COLUMNS: String(size.columns), TTY_ROWS: String(size.rows) },
      [],
      ['--import', fakeTty, '--enable-source-maps', programPath],
      'pipe',
    );
    atEnd(async () => {
      await this.program.stop('SIGKILL');
    });
  }

  static async start(): Promise<Watch> {
    return new Watch(await ServedChain.start(smallChain(100, [[], []]), { sealed: 101 }));
  }

  /** What the terminal shows now. */
  screen(): Screen {
    const screen = new Screen(size);
    screen.write(this.program.stdout);
    return screen;
  }

  shows(text: string): Promise<Screen> {
    return eventually(() => {
      const screen = this.screen();
      return screen.lines().some((line) => line.includes(text)) ? screen : undefined;
    });
  }

  /** The terminal is as it was, with what was shown last on it. */
  expectGivenBack(): void {
    const { hasCursor, isOther, wraps } = this.screen();
    expect({ hasCursor, isOther, wraps }).toEqual({ hasCursor: true, isOther: false, wraps: true });
    expect(this.screen().lines()).toContain(INDEXED);
    expect(this.program.stderr).toBe('keys one by one\nkeys by the line\n');
  }
}

describe('status --watch on a terminal', () => {
  it.each(['q', '\u0003'])('is a page of its own until %j is pressed', async (key) => {
    const watch = await Watch.start();
    const { hasCursor, isOther } = await watch.shows(INDEXED);
    expect({ hasCursor, isOther }).toEqual({ hasCursor: false, isOther: true });
    // Of other keys nothing is seen, and the page goes on.
    watch.program.type('x\u001b[A');
    const pages = (): number => watch.program.stdout.split('\u001b[H').length;
    const before = pages();
    await eventually(() => (pages() > before ? true : undefined));
    expect(watch.screen().isOther).toBe(true);
    watch.program.type(key);
    expect(await watch.program.exited).toBe(0);
    watch.expectGivenBack();
  });

  it('gives the terminal back when a signal ends it', async () => {
    const watch = await Watch.start();
    await watch.shows(INDEXED);
    expect(await watch.program.stop('SIGTERM')).toBe(0);
    watch.expectGivenBack();
  });
});
