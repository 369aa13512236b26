import { expect, it } from 'vitest';
import { EveryMetric } from '../../support/everyMetric.js';
import { panelsOf, readDashboard } from '../../support/dashboard.js';
import { selectorsIn } from '../../support/promql.js';

const dashboard = readDashboard();
const panels = panelsOf(dashboard);
const every = new EveryMetric();
const selectors = panels.flatMap(({ targets }) => targets.flatMap(({ expr }) => selectorsIn(expr)));

/** That it is what the script makes: `npm run docs:check`. */
it('has every metric of a daemon on it, and asks for no others, of the chosen instances', () => {
  const shown = new Set(selectors.map(({ metric }) => every.family(metric)));
  expect(every.names.filter((name) => !shown.has(name))).toEqual([]);
  for (const { metric, matchers } of selectors) {
    if (metric === 'ALERTS') continue;
    expect(every.labelsOf(metric), metric).toEqual(
      expect.arrayContaining(matchers.map(({ label }) => label)),
    );
    expect(matchers, metric).toContainEqual({ label: 'instance', operator: '=~', value: '$instance' });
  }
});

it('names each series by labels that the query keeps, explains each panel, draws none over another, and knows each by an id of its own', () => {
  for (const { title, targets } of panels) {
    for (const { expr, legendFormat } of targets) {
      const kept = new Set(selectorsIn(expr).flatMap(({ metric }) => every.labelsOf(metric) ?? []));
      const summed = /^(?:sum|max) by \(([^)]*)\)/.exec(expr)?.[1]?.split(', ');
      for (const [, label = ''] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
        if (summed !== undefined) expect(summed, `${title}: ${legendFormat}`).toContain(label);
        else if (!expr.includes('ALERTS') && !expr.startsWith('up'))
          expect([...kept], title).toContain(label);
      }
    }
  }
  for (const { description, targets, title, type } of panels) {
    expect(description, title).toBeTruthy();
    expect(targets.length, title).toBeGreaterThan(0);
    expect(['stat', 'timeseries', 'state-timeline'], title).toContain(type);
  }
  const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) => {
    expect(x + w).toBeLessThanOrEqual(24);
    return Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)},${y + Math.floor(cell / w)}`);
  });
  expect(new Set(cells).size).toBe(cells.length);
  expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
});
