// Writes the Grafana dashboard from scripts/dashboard/; with --check, fails when the file is stale.
import { makeDashboard } from './dashboard/makeDashboard.js';
import { writeFormatted } from './writeGenerated.js';

await writeFormatted(
  'deploy/grafana/dashboards/flow-collection-indexer.json',
  JSON.stringify(makeDashboard()),
);
