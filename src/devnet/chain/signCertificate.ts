import { bls12_381 } from '@noble/curves/bls12-381.js';
import type { Identifier } from '../../flow/index.js';
import { loadCertificates, type Certificate, type Committee } from '../../proof/index.js';

// Not with the door of the room, so that a daemon does not load it.
const certificates = await loadCertificates();
const { checksumOf, encodeKey, hashToPoint, messageOf, SIGNATURE_BYTES, writeSigData } = certificates;
const { Fr } = bls12_381.fields;

/** A key of a simulated member of a committee. */
export interface SigningKey {
  readonly secret: bigint;
  /** 192 hex digits, as a `Committee` has it. */
  readonly publicKey: string;
}

/** The seed has 48 bytes; the same seed gives the same key. */
export function signingKeyOf(seed: Uint8Array): SigningKey {
  const secret = Fr.fromBytes(bls12_381.utils.randomSecretKey(seed));
  return { secret, publicKey: encodeKey(bls12_381.G2.Point.BASE.multiply(secret)) };
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
): Certificate {
  const { committee, keys, signers, beacon } = signing;
  const message = messageOf({ view, blockId });
  const sign = (tag: string, secret: bigint): Uint8Array =>
    hashToPoint(message, tag).multiply(secret).toBytes(true);
  const sum = signers.reduce((total, index) => Fr.add(total, keys[index]?.secret ?? 0n), 0n);
  return {
    view,
    blockId,
    voterIndices: indicesOf(committee, signers),
    voterSigData: writeSigData(
      signers.length,
      sign(certificates.VOTE_TAG, sum),
      beacon === undefined ? Buffer.alloc(SIGNATURE_BYTES) : sign(certificates.BEACON_TAG, beacon.secret),
    ),
  };
}

/** The checksum of the committee, and a bit for each member, from the most significant on. */
function indicesOf(committee: Committee, signers: readonly number[]): Uint8Array {
  const bits = Buffer.alloc(Math.ceil(committee.members.length / 8));
  for (const index of signers) bits[index >> 3] = (bits[index >> 3] ?? 0) | (0x80 >> (index & 7));
  return Buffer.concat([checksumOf(committee), bits]);
}
