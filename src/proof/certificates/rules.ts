/** How the votes of a spork are signed. */
export interface CertificateRules {
  /** `view-and-id`: flow-go 0.29 and later. `hash`: SHA3-256 of both, before. */
  readonly message: 'view-and-id' | 'hash';
  readonly voteTag: string;
  readonly beaconTag: string;
}

/** Since flow-go 0.29 (mainnet21). */
export const CURRENT_RULES: CertificateRules = {
  message: 'view-and-id',
  voteTag: 'FLOW-Consensus_Vote-V00-CS00-with-',
  beaconTag: 'FLOW-Random_Beacon-V00-CS00-with-',
};
/** flow-go 0.27 and 0.28 (mainnet19 and 20). */
export const V27_RULES: CertificateRules = { ...CURRENT_RULES, message: 'hash' };
/** Before flow-go 0.27 (up to mainnet18). */
export const FIRST_RULES: CertificateRules = {
  message: 'hash',
  voteTag: 'APPFLOW-V0.0_Consensus-Vote',
  beaconTag: 'APPFLOW-V0.0_Random-Beacon',
};
