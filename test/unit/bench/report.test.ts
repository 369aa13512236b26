import { describe, expect, it } from 'vitest';
import {
  digits,
  formatFigures,
  formatTable,
  isAsWritten,
  isMet,
  missedFigures,
  performancePage,
} from '../../bench/lib/report.js';
import { interleave, median, percentile, ratioOf } from '../../bench/lib/statistics.js';

describe('statistics of the benches', () => {
  it('takes the middle, and of two in the middle their mean', () => {
    expect(median([9, 1, 5])).toBe(5);
    expect(median([4, 1, 2, 100])).toBe(3);
    expect(median([])).toBeNaN();
  });

  it('takes percentiles that are measured values', () => {
    const values = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect(percentile(values, 0.5)).toBe(51);
    expect(percentile(values, 0.99)).toBe(100);
    expect(percentile(values, 1)).toBe(100);
  });

  it('compares within a round, so that a drift of the machine drops out', () => {
    expect(ratioOf([10, 1, 100], [20, 2, 200])).toBe(0.5);
  });

  it('lets everyone run once in a round, each time another first', async () => {
    const order: string[] = [];
    const subject = (name: string) => (): number => order.push(name);
    const results = await interleave({ a: subject('a'), b: subject('b') }, { rounds: 2 });
    expect(order).toEqual(['a', 'b', 'b', 'a']);
    expect(results).toEqual({ a: [1, 4], b: [2, 3] });
  });
});

describe('reports of the benches', () => {
  it('says of each figure how it stands to its target', () => {
    const figures = [
      { what: 'fast enough', value: 0.8, atLeast: 0.8 },
      { what: 'too slow', value: 31, unit: 'ms', atMost: 30 },
      { what: 'told only', value: 12_345.6, on: '2 processors' },
      { what: 'not measured', value: Number.NaN, atLeast: 1 },
    ];
    expect(figures.map(isMet)).toEqual([true, false, true, false]);
    const lines = formatFigures(figures).split('\n');
    expect(lines[4]).toMatch(/fast enough .* 0\.8 .* ≥ 0\.8 .*met/);
    expect(lines[5]).toMatch(/too slow .* 31 ms .* ≤ 30 ms .*missed/);
    expect(lines[6]).toMatch(/told only .* 12,346 +\| +\| +\| 2 processors \|$/);
    expect(lines[7]).toMatch(/not measured .* \? .*missed/);
  });

  it('writes three digits that count', () => {
    expect([0.123456, 1.5, 12.345, 123.4, 98_765.4].map(digits)).toEqual([
      '0.123',
      '1.5',
      '12.3',
      '123',
      '98,765',
    ]);
  });

  it('lines the columns of a table up, numbers to the right', () => {
    const table = formatTable({
      title: 'T',
      columns: ['name', 'n'],
      rows: [
        ['a', 5],
        ['long name', '1,234'],
      ],
    });
    expect(table).toBe(
      'T\n\n| name      |     n |\n| --------- | ----: |\n| a         |     5 |\n| long name | 1,234 |\n',
    );
  });

  it('writes a page in which a changed figure is found', async () => {
    const report = {
      title: 'Reading',
      about: 'How fast.',
      command: 'npm run bench -- --only reading',
      tables: [{ title: 'Rates', columns: ['what', 'rate'], rows: [['one', 41.5]] }],
      figures: [
        { what: 'reading ÷ writing', value: 0.9, atLeast: 0.8 },
        { what: 'reading while writing', value: 30, unit: 'ms', atMost: 20 },
        { what: 'writing, which nobody asked for', value: 1 },
      ],
    };
    const machine = {
      date: '2026-01-02',
      processors: '2 × some',
      memoryGiB: 8,
      system: 'Linux 6',
      node: 'v24.0.0',
    };
    const measured = [{ ...machine, report }];
    const page = await performancePage({ measured, absent: ['growth', 'ranges'] }, {});
    expect(page).toContain('Not run in full yet: growth, ranges.');
    expect(await performancePage({ measured, absent: [] }, {})).not.toContain('Not run in full yet');
    expect(page).toContain('| one  | 41.5 |');
    expect(page).toContain('on 2026-01-02, 2 × some, 8 GiB of memory, Linux 6, Node.js v24.0.0');
    expect(missedFigures(page)).toEqual(['reading while writing']);
    expect(isAsWritten(page)).toBe(true);
    expect(isAsWritten(page.replace('41.5', '45.1'))).toBe(false);
    expect(isAsWritten(page.split('<!-- sha3')[0] ?? '')).toBe(false);
  });
});
