import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface DashboardPanel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[];
}

export interface DashboardFile {
  readonly panels: readonly DashboardPanel[];
}

export function readDashboard(): DashboardFile {
  const path = join(import.meta.dirname, '../../deploy/grafana/dashboards/flow-collection-indexer.json');
  return JSON.parse(readFileSync(path, 'utf8')) as DashboardFile;
}

export function panelsOf({ panels }: DashboardFile): readonly DashboardPanel[] {
  return panels.filter(({ type }) => type !== 'row');
}
