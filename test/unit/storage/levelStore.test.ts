import { levelStores } from '../../support/storeKinds.js';
import { checkSuite } from '../../support/storeSuite/checks.js';
import { commitSuite } from '../../support/storeSuite/commits.js';
import { rangeSuite } from '../../support/storeSuite/ranges.js';

for (const suite of [commitSuite, rangeSuite, checkSuite]) suite(levelStores);
