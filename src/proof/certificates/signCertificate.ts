import type { Identifier } from '../../flow/index.js';
import type { Committee } from '../committee/committee.js';
import { SIGNATURE_BYTES, encodeKey, publicKeyOf, secretKeyOf, sign } from './bls.js';
import { messageOf, writeIndices, writeSigData } from './verifyCertificate.js';
import type { CertificateRules } from './rules.js';
import type { Certificate } from './verifyCertificate.js';

/** A key of a simulated member of a committee. */
export interface SigningKey {
  readonly secret: bigint;
  /** 192 hex digits, as a `Committee` has it. */
  readonly publicKey: string;
}

/** The seed has 48 bytes; the same seed gives the same key. */
export function signingKeyOf(seed: Uint8Array): SigningKey {
  const secret = secretKeyOf(seed);
  return { secret, publicKey: encodeKey(publicKeyOf(secret)) };
}

/**
 * A certificate of a simulated committee, all of whose secrets are known: the sum of the signers' secrets signs once for
 * all of them. `signers` are indices of members, and `keys` are in the members' order.
 */
export function signCertificate(
  { view, blockId }: { readonly view: number; readonly blockId: Identifier },
  signing: {
    readonly committee: Committee;
    readonly keys: readonly SigningKey[];
    readonly signers: readonly number[];
    /** Without it the beacon's signature is blank, for a committee without a beacon key. */
    readonly beacon?: SigningKey;
  },
  rules: CertificateRules,
): Certificate {
  const { committee, keys, signers, beacon } = signing;
  const message = messageOf({ view, blockId }, rules);
  const secrets = signers.map((index) => keys[index]?.secret ?? 0n);
  return {
    view,
    blockId,
    voterIndices: writeIndices(committee, signers),
    voterSigData: writeSigData(
      signers.length,
      sign(message, rules.voteTag, secrets),
      beacon === undefined ? Buffer.alloc(SIGNATURE_BYTES) : sign(message, rules.beaconTag, [beacon.secret]),
    ),
  };
}
