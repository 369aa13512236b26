import { join } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { makeDashboard } from '../../../scripts/dashboard/makeDashboard.js';
import { EveryMetric } from '../../support/everyMetric.js';
import { panelsOf, readDashboard } from '../../support/dashboard.js';
import { selectorsIn } from '../../support/promql.js';

/** Where the text that is compiled would stand: packages are found from here. */
const path = join(import.meta.dirname, 'compiledDashboards.ts');

/**
 * The types that Grafana publishes of its dashboards, made to fit JSON: members of enumerations are their values. What a
 * panel draws with is left open there; here it is that of its kind.
 */
const types = `
  import type { Dashboard, Panel, RowPanel } from '@grafana/grafana-foundation-sdk/dashboard';
  import type { FieldConfig, Options as Lines } from '@grafana/grafana-foundation-sdk/timeseries';
  import type { Options as Stat } from '@grafana/grafana-foundation-sdk/stat';
  import type { FieldConfig as StateField, Options as States } from '@grafana/grafana-foundation-sdk/statetimeline';
  import type { Dataquery } from '@grafana/grafana-foundation-sdk/prometheus';

  type Json<T> = T extends string ? \`\${T}\`
    : T extends number ? (number extends T ? number : \`\${T}\` extends \`\${infer N extends number}\` ? N : never)
    : T extends readonly (infer E)[] ? Json<E>[]
    : T extends object ? { [K in keyof T]: Json<T[K]> }
    : T;
  type Fields = NonNullable<Panel['fieldConfig']>;
  type Drawn<Type, Options, Custom> = Json<Omit<Panel, 'type' | 'options' | 'fieldConfig' | 'targets'>> & {
    type: Type;
    options?: Json<Partial<Options>>;
    targets?: Json<Omit<Dataquery, '_implementsDataqueryVariant'>>[];
    fieldConfig?: {
      defaults: Json<Omit<Fields['defaults'], 'custom'>> & { custom?: Json<Partial<Custom>> };
      overrides: Json<Fields['overrides']>;
    };
  };
  type AnyPanel =
    | Drawn<'stat', Stat, never>
    | Drawn<'timeseries', Lines, FieldConfig>
    | Drawn<'state-timeline', States, StateField>
    | (Json<Omit<RowPanel, 'type'>> & { type: 'row' });
  type File = Json<Omit<Dashboard, 'panels'>> & { panels: AnyPanel[] };
`;

/** What the compiler finds wrong with each of the dashboards. */
function dashboardFaults(dashboards: readonly unknown[]): readonly (readonly string[])[] {
  let source = types;
  const ends = dashboards.map((dashboard, index) => {
    source += `\nexport const dashboard${index}: File = ${JSON.stringify(dashboard)};`;
    return source.length;
  });
  const faults = dashboards.map((): string[] => []);
  for (const { messageText, start = 0 } of compile(source)) {
    const text = ts.flattenDiagnosticMessageText(messageText, '\n');
    if (start < types.length) throw new Error(`the types themselves: ${text}`);
    faults[ends.findIndex((end) => start < end)]?.push(text);
  }
  return faults;
}

function compile(source: string): readonly ts.Diagnostic[] {
  const options: ts.CompilerOptions = {
    ...{ strict: true, noEmit: true, skipLibCheck: true, types: [], target: ts.ScriptTarget.ES2022 },
    // By default those of browsers too, which take longer to read than all else.
    lib: ['lib.es2022.d.ts'],
    ...{ module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext },
  };
  const host = ts.createCompilerHost(options);
  const fileExists = host.fileExists.bind(host);
  const readFile = host.readFile.bind(host);
  const getSourceFile = host.getSourceFile.bind(host);
  host.fileExists = (name) => name === path || fileExists(name);
  host.readFile = (name) => (name === path ? source : readFile(name));
  host.getSourceFile = (name, target, ...rest) =>
    name === path ? ts.createSourceFile(name, source, target) : getSourceFile(name, target, ...rest);
  return ts.getPreEmitDiagnostics(ts.createProgram([path], options, host));
}

const dashboard = readDashboard();
const panels = panelsOf(dashboard);
const every = new EveryMetric();
const selectors = panels.flatMap(({ targets }) => targets.flatMap(({ expr }) => selectorsIn(expr)));

describe('the dashboard', () => {
  it('is what the script makes', () => {
    expect(JSON.parse(JSON.stringify(makeDashboard()))).toEqual(dashboard);
  });

  it('fits the types of Grafana, which would find a fault', () => {
    const [own, changed] = dashboardFaults([dashboard, { ...dashboard, panles: [] }]);
    expect([own, changed?.join()]).toEqual([[], expect.stringContaining('panles')]);
  });

  it('has every metric of a daemon on it', () => {
    const shown = new Set(selectors.map(({ metric }) => every.family(metric)));
    expect(every.names.filter((name) => !shown.has(name))).toEqual([]);
  });

  it('asks for metrics that there are, of the chosen instances', () => {
    for (const { metric, matchers } of selectors) {
      if (metric === 'ALERTS') continue;
      const labels = metric === 'up' ? ['job', 'instance'] : every.labelsOf(metric);
      expect(labels, metric).toBeDefined();
      for (const { label } of matchers) expect(labels, `${metric}{${label}}`).toContain(label);
      expect(matchers, metric).toContainEqual({ label: 'instance', operator: '=~', value: '$instance' });
    }
  });

  it('names each series by labels that the query keeps', () => {
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
  });

  it('explains each panel, draws none over another, and knows each by an id of its own', () => {
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
});
