import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { allReadinessCodes } from '../../../src/observability/index.js';
import { alertRules } from '../../support/alertRules.js';
import { EveryMetric } from '../../support/everyMetric.js';
import { selectorsIn } from '../../support/promql.js';

const root = join(import.meta.dirname, '../../..');
const rules = alertRules();
const every = new EveryMetric();

/** What a heading is called in a link. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}

function headingsOf(page: string): readonly string[] {
  const text = readFileSync(join(root, page), 'utf8');
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => heading);
}

it.each(rules.map((rule) => [rule.alert, rule] as const))(
  'the alert rules %s asks for metrics that exist, says what is wrong, and where to read on',
  (name, { annotations, expr, labels: { severity } }) => {
    const selectors = selectorsIn(expr);
    expect(selectors.length).toBeGreaterThan(0);
    for (const { metric, matchers } of selectors) {
      const labels = metric === 'up' ? ['job', 'instance'] : every.labelsOf(metric);
      expect(labels, metric).toBeDefined();
      for (const { label } of matchers) expect(labels, `${metric}{${label}}`).toContain(label);
    }
    expect(name).toMatch(/^FlowIndexer[A-Z]/);
    expect(['critical', 'warning']).toContain(severity);
    expect(annotations['summary']).toBeTruthy();
    expect(annotations['description']?.length).toBeGreaterThan(20);
    const [page = '', anchor] = annotations['runbook_url']?.split('#') ?? [];
    expect(headingsOf(page).map(anchorOf)).toContain(anchor);
    expect(anchor).toBe(name.toLowerCase());
  },
);

it('the alert rules have one for each code of /readyz, and the runbook a section for each rule, and for no other', () => {
  const codes = rules
    .flatMap(({ expr }) => selectorsIn(expr))
    .filter(({ metric }) => metric === 'flow_collection_indexer_not_ready')
    .flatMap(({ matchers }) => matchers.filter(({ label }) => label === 'code').map(({ value }) => value));
  expect(codes.toSorted()).toEqual([...allReadinessCodes].toSorted());
  const named = headingsOf('docs/runbook.md').filter((heading) => heading.startsWith('FlowIndexer'));
  expect(named.toSorted()).toEqual(rules.map(({ alert }) => alert).toSorted());
});

it('the alert rules are each tested to fire, and not to fire', () => {
  const { tests } = parse(readFileSync(join(root, 'deploy/prometheus/alerts.test.yml'), 'utf8')) as {
    tests: { promql_expr_test: { expr: string; exp_samples: unknown[] }[] }[];
  };
  const looks = tests.flatMap(({ promql_expr_test }) => promql_expr_test);
  for (const { alert } of rules) {
    const its = looks.filter(({ expr }) => expr === `ALERTS{alertname="${alert}", alertstate="firing"}`);
    const fires = new Set(its.map(({ exp_samples }) => exp_samples.length > 0));
    expect(fires, alert).toEqual(new Set([true, false]));
  }
});
