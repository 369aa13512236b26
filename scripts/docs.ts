// `npm run docs`: writes what is generated of docs/, man/ and deploy/. `npm run docs:check`, which is this with --check: fails where
// something is stale.
import './generated/configuration.js';
import './generated/metrics.js';
import './generated/readiness.js';
import './generated/faultMatrix.js';
import './generated/apiTypes.js';
import './generated/manPages.js';
import './generated/measured.js';
import { makeDashboard } from './dashboard/makeDashboard.js';
import { writeFormatted } from './generated/writeGenerated.js';

await writeFormatted(
  'deploy/grafana/dashboards/flow-collection-indexer.json',
  JSON.stringify(makeDashboard()),
);
