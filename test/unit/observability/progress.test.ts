import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { liveTerminal, measureProgress, reportProgress } from '../../../src/observability/index.js';
import { renderProgressLine } from '../../../src/observability/index.js';
import { RecordingLogger, VirtualClock } from '../../support/index.js';

interface Progress {
  latest: number | undefined;
  head: number | undefined;
  heldUpBy?: string | undefined;
}

function metered<At extends Progress>(at: At) {
  const clock = new VirtualClock();
  const [latestIndexedHeight, headHeight, heldUpBy] = [() => at.latest, () => at.head, () => at.heldUpBy];
  return {
    at,
    clock,
    meter: measureProgress({ clock, source: { latestIndexedHeight, headHeight, heldUpBy } }),
  };
}

it('ProgressMeter measures rate, lag and the time left, the movement of the head included', async () => {
  const { at, clock, meter } = metered({ latest: 1000, head: 11_000 });
  meter();
  for (let second = 0; second < 10; second += 1) {
    await clock.advance(1000);
    at.latest += 200;
    at.head += 2;
    meter();
  }
  const state = meter();
  expect(state).toMatchObject({ latestIndexed: 3000, head: 11_020, lag: 8020 });
  expect(state.rate).toBeCloseTo(200);
  expect(state.eta).toBeCloseTo(8020 / 198);
  // Heights that are no longer wanted are not heights that were filled in.
  at.head -= 5_000;
  expect(meter().eta).toBeCloseTo(3020 / 200);
});

it('ProgressMeter forgets what lies before the window', async () => {
  const { at, clock, meter } = metered({ latest: 0, head: 1_000_000 });
  for (let second = 0; second <= 600; second += 1) {
    at.latest += second < 300 ? 1000 : 10;
    meter();
    await clock.advance(1000);
  }
  expect(meter().rate).toBeCloseTo(10, 0);
  // Nor does an outage in which nobody told the head slow down what comes after it.
  await clock.advance(600_000);
  meter();
  await clock.advance(1000);
  at.latest += 500;
  expect(meter().rate).toBeCloseTo(500, 0);
});

it('ProgressMeter measures anew where the watermark goes back', async () => {
  const { at, clock, meter } = metered({ latest: 1000, head: 11_000 });
  meter();
  await clock.advance(1000);
  at.latest = 900;
  const state = meter();
  expect(state).toMatchObject({ rate: 0, lag: 10_100 });
  expect(renderProgressLine({ ...state, firstIndexed: 900 }, 80)).toContain('0.0%  900 / 11,000');
});

type Shown = Parameters<typeof renderProgressLine>[0];

const catchingUp: Shown = {
  ...{ firstIndexed: 315_500, latestIndexed: 1_234_567, head: 2_345_678, lag: 1_111_111 },
  ...{ rate: 198.44, eta: 5599 },
};

const following = { lag: 1, rate: 0.82 };
const rest = '198.4/s  lag 1,111,111  ETA 1h 33m';
const line = (change: Partial<Shown>, columns: number): string =>
  renderProgressLine({ ...catchingUp, ...change }, columns);

it.each<readonly [columns: number, change: Partial<Shown>, line: string]>([
  [120, {}, `[==================>                     ]  45.2%  1,234,567 / 2,345,678  ${rest}`],
  [80, {}, `[=====>      ]  45.2%  1,234,567 / 2,345,678  ${rest}`],
  [60, {}, '[======>        ]  45.2%  198.4/s  lag 1,111,111  ETA 1h 33m'],
  [20, {}, '45.2%  ETA 1h 33m'],
  [80, following, 'following, head 2,345,678, lag 1, 0.82/s'],
  [30, following, 'following, head 2,345,678'],
  [20, following, 'head 2,345,678'],
  [80, { head: null, lag: null }, 'waiting for the head of the chain'],
])('renderProgressLine leaves out what %i columns have no room for: %j', (columns, change, expected) => {
  expect(line(change, columns)).toBe(expected);
});

it.each<readonly [what: string, change: Partial<Shown>, part: string]>([
  ['no height below zero', { firstIndexed: 0, latestIndexed: -1, head: 5000 }, '  0 / 5,000  '],
  ['that the end is not known', { eta: null }, 'ETA unknown'],
  ['not 100 % before the end', { latestIndexed: 2_345_667, lag: 11 }, '99.9%'],
])('renderProgressLine shows %s', (_, change, part) => {
  expect(line(change, 120)).toContain(part);
});

it('renderProgressLine fits any width in plain ASCII', () => {
  const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
  const upTo = (max: number) => fc.double({ min: 0, max, noNaN: true });
  const state = fc.record({
    ...{ firstIndexed: maybe(fc.nat()), latestIndexed: maybe(fc.nat()) },
    ...{ head: maybe(fc.maxSafeNat()), lag: maybe(fc.maxSafeNat()) },
    ...{ rate: upTo(1e6), eta: maybe(upTo(1e12)) },
  });
  fc.assert(
    fc.property(state, fc.integer({ min: 0, max: 200 }), (any, columns) => {
      const line = renderProgressLine(any, columns);
      expect(line.length).toBeLessThanOrEqual(columns);
      expect(line).toMatch(/^[\x20-\x7e]*$/);
    }),
  );
});

/** Back to the first column and erase. */
const CLEAR_LINE = '\r\u001b[2K';

/** A terminal that interprets what is written as a real one does: carriage return, "clear line", newline. */
class FakeTerminal {
  readonly columns = 80;
  readonly scrolled: string[] = [];
  line = '';

  write(text: string): void {
    text
      .replaceAll(CLEAR_LINE, '\r')
      .split(/([\r\n])/)
      .forEach((piece) => {
        if (piece === '\n') {
          this.scrolled.push(this.line);
          this.line = '';
        } else if (piece === '\r') this.line = '';
        else this.line += piece;
      });
  }
}

it('the live terminal prints log lines above the live line and garbles neither', () => {
  const terminal = new FakeTerminal();
  const live = liveTerminal(terminal);
  live.write('before\n');
  live.setLine('10%');
  live.write('during\n');
  expect(terminal).toMatchObject({ scrolled: ['before', 'during'], line: '10%' });
  live.setLine('9%');
  live.write('no newline');
  expect(terminal).toMatchObject({ scrolled: ['before', 'during', 'no newline'], line: '9%' });
  live.setLine(undefined);
  live.write('after\n');
  expect(terminal).toMatchObject({ scrolled: ['before', 'during', 'no newline', 'after'], line: '' });
});

it('the live terminal does not pile up live lines while the terminal stands still', () => {
  const terminal = Object.assign(new FakeTerminal(), { isBehind: false });
  const live = liveTerminal(terminal);
  live.setLine('8%');
  terminal.isBehind = true;
  live.setLine('9%');
  expect(terminal).toMatchObject({ scrolled: [], line: '8%' });
  live.write('during\n');
  expect(terminal).toMatchObject({ scrolled: ['during'], line: '9%' });
  live.setLine(undefined);
  expect(terminal.line).toBe('');
});

function reporterOn(mode: 'tty' | 'log', latest = 0, head = 1_000_000, heldUpBy?: string) {
  const start: Progress & { latest: number; head: number } = { latest, head, heldUpBy };
  const { at, clock, meter } = metered(start);
  const logger = new RecordingLogger();
  const terminal = new FakeTerminal();
  const live = mode === 'tty' ? liveTerminal(terminal) : undefined;
  const end = reportProgress({
    clock,
    meter,
    logger,
    terminal: live,
    store: { meta: () => ({ firstHeight: 0 }) },
  });
  return { at, clock, logger, terminal, end };
}

describe('reported progress', () => {
  it('logs rate, lag and time left every 10 s while catching up', async () => {
    const { at, clock, logger } = reporterOn('log');
    expect(logger.records).toEqual([]);
    for (let second = 0; second < 35; second += 1) {
      at.latest += 100;
      await clock.advance(1000);
    }
    expect(logger.messages()).toEqual(['catching up', 'catching up', 'catching up']);
    const { fields } = logger.records[2]!;
    expect(fields).toMatchObject({ latestIndexed: 3000, head: 1_000_000, lag: 997_000 });
    expect(fields['rate']).toBeCloseTo(100, -1);
    expect(fields['eta']).toMatch(/^2h \d+m$/);
    expect(Math.floor(Number(fields['etaSeconds']) / 3_600)).toBe(2);
  });

  it('logs once a minute at the head, and at once when it is reached or lost', async () => {
    const { at, clock, logger } = reporterOn('log');
    await clock.advance(5000);
    at.latest = at.head;
    await clock.advance(1000);
    expect(logger.messages()).toEqual(['reached the head']);
    await clock.advance(180_000);
    expect(logger.messages().slice(1)).toEqual(Array(3).fill('following the head'));
    // It does not flutter between the two.
    at.head += 100;
    await clock.advance(1000);
    expect(logger.messages()).toHaveLength(4);
    at.head += 1;
    await clock.advance(1000);
    expect(logger.messages().at(-1)).toBe('fell behind the head');
    at.latest += 90;
    await clock.advance(1000);
    expect(logger.messages()).toHaveLength(5);
  });

  it('says what holds it up instead of a rate that is over, and no time left', async () => {
    const { at, clock, logger, terminal } = reporterOn('log');
    at.latest += 100;
    await clock.advance(9_000);
    at.heldUpBy = 'edi_unavailable';
    await clock.advance(1_000);
    expect(logger.records.at(-1)).toMatchObject({
      message: 'held up',
      fields: { heldUpBy: 'edi_unavailable', eta: 'unknown', lag: 999_900 },
    });
    const tty = reporterOn('tty');
    tty.at.heldUpBy = 'upstream_refusing';
    await tty.clock.advance(1_000);
    expect(tty.terminal.line).toContain('held up at 1: upstream_refusing, lag 1,000,000');
    expect(terminal.scrolled).toEqual([]);
  });

  it('has not reached the head while it waits for the first height of its store', async () => {
    const { at, clock, logger } = reporterOn('log', 1_000_000, 1_000_000, 'start_height_ahead');
    await clock.advance(5_000);
    expect(logger.messages()).toEqual([]);
    at.heldUpBy = undefined;
    await clock.advance(1_000);
    expect(logger.messages()).toEqual(['reached the head']);
  });

  it('keeps one line on a terminal and does not repeat itself in the log', async () => {
    const { at, clock, logger, terminal, end } = reporterOn('tty');
    for (let second = 0; second < 30; second += 1) {
      at.latest += 100;
      await clock.advance(1000);
    }
    expect([logger.records, terminal.scrolled]).toEqual([[], []]);
    expect(terminal.line).toContain('lag 997,000');
    at.latest = at.head;
    await clock.advance(1000);
    expect(logger.messages()).toEqual(['reached the head']);
    expect(terminal.line).toContain('following, head 1,000,000');
    end();
    expect([terminal.line, clock.pendingTimers]).toEqual(['', 0]);
  });
});
