import { panelsOf, readDashboard } from '../support/dashboard.js';
import type { PrometheusServer } from './PrometheusServer.js';

/** What Grafana puts in the place of its variables. */
const variables: readonly (readonly [string, string])[] = [
  ['$instance', '.+'],
  ['$__rate_interval', '10s'],
  ['$__interval', '5s'],
];

/** Runs every query of the dashboard. Resolves with what Prometheus refuses, and with labels that its series lack. */
export async function checkDashboard(prometheus: PrometheusServer, beganAt: number): Promise<string[]> {
  const faults: string[] = [];
  for (const { targets, title } of panelsOf(readDashboard())) {
    for (const { expr, legendFormat } of targets) {
      const query = variables.reduce((text, [name, value]) => text.replaceAll(name, value), expr);
      try {
        const series = await prometheus.queryRange(query, beganAt, Date.now() / 1_000);
        for (const { metric } of series) {
          for (const [, label = ''] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
            if (!(label in metric)) faults.push(`${title}: its series have no ${label}`);
          }
        }
      } catch (error) {
        faults.push(`${title}: ${expr}: ${String(error)}`);
      }
    }
  }
  return [...new Set(faults)];
}
