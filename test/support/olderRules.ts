import { CURRENT_RULES } from '../../src/proof/index.js';
import type { CertificateRules } from '../../src/proof/index.js';

/** Of sporks that no committee is proven for any more: flow-go 0.27 and 0.28 (mainnet19 and 20). */
export const V27_RULES: CertificateRules = { ...CURRENT_RULES, message: 'hash' };
/** Before flow-go 0.27 (up to mainnet18). */
export const FIRST_RULES: CertificateRules = {
  message: 'hash',
  voteTag: 'APPFLOW-V0.0_Consensus-Vote',
  beaconTag: 'APPFLOW-V0.0_Random-Beacon',
};
