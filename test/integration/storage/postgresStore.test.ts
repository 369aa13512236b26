import { postgresStores } from '../../support/storeKinds.js';
import { commitSuite } from '../../support/storeSuite/commits.js';
import { rangeSuite } from '../../support/storeSuite/ranges.js';

commitSuite(postgresStores);
rangeSuite(postgresStores);
