import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { allReadinessCodes } from '../../../src/observability/index.js';
import { pageAt, root } from '../../docs/files.js';
import { alertRules } from '../../support/alertRules.js';
import { EveryMetric } from '../../support/everyMetric.js';
import { selectorsIn } from '../../support/promql.js';

const runbook = pageAt('docs/runbook.md');
const rules = alertRules();
const every = new EveryMetric();

it.each(rules)(
  'the alert rules $alert asks for metrics that exist, says what is wrong, and where to read on',
  ({ alert: name, annotations, expr, labels: { severity } }) => {
    const selectors = selectorsIn(expr);
    expect(selectors.length).toBeGreaterThan(0);
    for (const { metric, matchers } of selectors)
      expect(every.labelsOf(metric), metric).toEqual(
        expect.arrayContaining(matchers.map(({ label }) => label)),
      );
    expect(name).toMatch(/^FlowIndexer[A-Z]/);
    expect(['critical', 'warning']).toContain(severity);
    expect(annotations['summary']).toBeTruthy();
    expect(annotations['description']?.length).toBeGreaterThan(20);
    const [page = '', anchor] = annotations['runbook_url']?.split('#') ?? [];
    expect(page).toBe(runbook.file);
    expect(anchor).toBe(name.toLowerCase());
  },
);

it('the alert rules have one for each code of /readyz, and the runbook a section for each rule, and for no other', () => {
  const codes = rules
    .flatMap(({ expr }) => selectorsIn(expr))
    .filter(({ metric }) => metric === 'flow_collection_indexer_not_ready')
    .flatMap(({ matchers }) => matchers.filter(({ label }) => label === 'code').map(({ value }) => value));
  expect(codes.toSorted()).toEqual([...allReadinessCodes].toSorted());
  const named = runbook.headings().flatMap(({ text }) => (text.startsWith('FlowIndexer') ? [text] : []));
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
