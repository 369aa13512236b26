import type { Builder } from '@grafana/grafana-foundation-sdk/cog';
import {
  AnnotationQueryBuilder,
  DashboardCursorSync,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  VariableRefresh,
  VariableSort,
} from '@grafana/grafana-foundation-sdk/dashboard';
import type { Dashboard, Panel, RowPanel } from '@grafana/grafana-foundation-sdk/dashboard';
import { datasource, type Row } from './panels.js';
import { healthRow, progressRow } from './rows/health.js';
import { processRow, readersRow } from './rows/service.js';
import { historyRow, storeRow } from './rows/store.js';
import { nodesRow, sourcesRow } from './rows/upstream.js';

/** From "is it healthy?" down to what only developers need. */
const rows: readonly Row[] = [
  healthRow,
  progressRow,
  sourcesRow,
  nodesRow,
  storeRow,
  readersRow,
  historyRow,
  processRow,
];

const COLUMNS = 24;
/** Version of the dashboard JSON that Grafana provisions from files. Newer versions of Grafana read it too. */
const SCHEMA_VERSION = 42;
const EVERY_DAEMON_HAS = 'flow_collection_indexer_network_info';

/** The Grafana dashboard, ready to import or provision. */
// eslint-disable-next-line @typescript-eslint/no-deprecated -- older Grafana reads no version 2
export function makeDashboard(): Dashboard {
  return {
    uid: 'flow-collection-indexer',
    title: 'Flow collection indexer',
    description: 'Made by `npm run docs` from scripts/dashboard/. What the metrics mean: docs/metrics.md.',
    tags: ['flow'],
    schemaVersion: SCHEMA_VERSION,
    editable: false,
    timezone: 'browser',
    time: { from: 'now-3h', to: 'now' },
    refresh: '30s',
    graphTooltip: DashboardCursorSync.Crosshair,
    templating: {
      list: [
        new DatasourceVariableBuilder('datasource').label('Prometheus').type('prometheus').build(),
        variable('network', `label_values(${EVERY_DAEMON_HAS}, network)`).build(),
        variable('instance', `label_values(${EVERY_DAEMON_HAS}{network=~"$network"}, instance)`).build(),
      ],
    },
    annotations: {
      list: [
        new AnnotationQueryBuilder()
          .name('Restarts')
          .datasource(datasource)
          .enable(true)
          .iconColor('purple')
          .expr('changes(process_start_time_seconds{instance=~"$instance"}[$__rate_interval]) > 0')
          .build(),
      ],
    },
    panels: placed(rows).map((panel, index) => ({ ...panel, id: index + 1 })),
  };
}

/** A variable with several values, all of them by default. */
function variable(name: string, query: string): QueryVariableBuilder {
  return new QueryVariableBuilder(name)
    .label(name.charAt(0).toUpperCase() + name.slice(1))
    .datasource(datasource)
    .query({ query, refId: name })
    .multi(true)
    .includeAll(true)
    .allValue('.+')
    .current({ text: 'All', value: '$__all', selected: true })
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .sort(VariableSort.AlphabeticalAsc);
}

/** Panels in the order of reading: beside each other while there is room, each row below the one before. */
function placed(all: readonly Row[]): (Panel | RowPanel)[] {
  let y = 0;
  return all.flatMap(({ title, panels }) => {
    const heading = new RowBuilder(title).gridPos({ x: 0, y, w: COLUMNS, h: 1 }).build();
    y += 1;
    let x = 0;
    let lineHeight = 0;
    const built = panels.map((builder: Builder<Panel>) => {
      const panel = builder.build();
      const { w = COLUMNS, h = 1 } = panel.gridPos ?? {};
      if (x + w > COLUMNS) {
        y += lineHeight;
        x = lineHeight = 0;
      }
      const at = { ...panel, gridPos: { x, y, w, h } };
      x += w;
      lineHeight = Math.max(lineHeight, h);
      return at;
    });
    y += lineHeight;
    return [heading, ...built];
  });
}
