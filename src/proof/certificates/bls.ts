// Flow's BLS signatures: BLS12-381, signatures in G1, keys in G2. Curve and pairing are those of the standard; the
// hash to the field (KMAC128 in place of expand_message_xmd) and the order of the halves of a key are Flow's own.
import { bls12_381 } from '@noble/curves/bls12-381.js';
import { kmac128 } from '@noble/hashes/sha3-addons.js';
import { sha3 } from '../../flow/index.js';

export type SignaturePoint = InstanceType<typeof bls12_381.G1.Point>;
export type KeyPoint = InstanceType<typeof bls12_381.G2.Point>;
/** A key, prepared for many pairings. */
export type PreparedKey = ReturnType<typeof bls12_381.utils.calcPairingPrecomputes>;

export const SIGNATURE_BYTES = 48;
export const KEY_BYTES = 96;
export const SECRET_BYTES = 32;

const { Fp, Fp12, Fr } = bls12_381.fields;
const HALF_KEY_BYTES = KEY_BYTES / 2;
/** Compressed, infinity, sign: the upper bits of the first byte of a point. */
const FLAGS = 0xe0;
const CIPHER_SUITE = 'BLS_SIG_BLS12381G1_XOF:KMAC128_SSWU_RO_POP_';
const FIELD_HASH_BYTES = 128;

const hex = (bytes: Uint8Array): bigint => BigInt(`0x${Buffer.from(bytes).toString('hex')}`);

/** A message as a point of G1. `tag` separates the domains of signatures. */
export function hashToPoint(message: Uint8Array, tag: string): SignaturePoint {
  const bytes = kmac128(Buffer.from(tag + CIPHER_SUITE), message, {
    personalization: Buffer.from('H2C'),
    dkLen: FIELD_HASH_BYTES,
  });
  // Declared for points of any curve: that of a prime field takes one number, and gives a point of the group.
  const mapToGroup = bls12_381.G1.mapToCurve as unknown as (element: bigint) => SignaturePoint;
  const half = (from: number): SignaturePoint =>
    mapToGroup(Fp.create(hex(bytes.subarray(from, from + FIELD_HASH_BYTES / 2))));
  return half(0).add(half(FIELD_HASH_BYTES / 2));
}

/** `undefined` unless it is a point of the group, and not infinity. */
export function decodeSignature(bytes: Uint8Array): SignaturePoint | undefined {
  return bytes.length === SIGNATURE_BYTES ? pointOf(() => bls12_381.G1.Point.fromBytes(bytes)) : undefined;
}

/** `undefined` unless it is a point of the group, and not infinity. */
export function decodeKey(bytes: Uint8Array): KeyPoint | undefined {
  return bytes.length === KEY_BYTES
    ? pointOf(() => bls12_381.G2.Point.fromBytes(swapHalves(bytes)))
    : undefined;
}

export function encodeKey(key: KeyPoint): Uint8Array {
  return swapHalves(key.toBytes(true));
}

/** The sum of points of one group; `undefined` when it is infinity. */
export function sumOf(points: readonly KeyPoint[]): KeyPoint | undefined {
  const sum = points.reduce((total, point) => total.add(point), bls12_381.G2.Point.ZERO);
  return sum.is0() ? undefined : sum;
}

export function prepareKey(key: KeyPoint): PreparedKey {
  return bls12_381.utils.calcPairingPrecomputes(key);
}

/** The generator of the keys' group, as `verifySignatures` takes it: prepare it once. */
export function prepareGenerator(): PreparedKey {
  return prepareKey(bls12_381.G2.Point.BASE);
}

export interface SignedMessage {
  readonly hash: SignaturePoint;
  readonly signature: SignaturePoint;
  readonly key: PreparedKey;
}

/**
 * Whether all signatures hold. They are checked at once: each further one counts with a factor that depends on
 * everything checked, so that errors of several cannot cancel out. `context` must hold all the keys, or name them.
 */
export function verifySignatures(
  items: readonly SignedMessage[],
  generator: PreparedKey,
  context: Uint8Array,
): boolean {
  const seed = Buffer.concat([
    context,
    ...items.flatMap(({ hash, signature }) => [hash.toBytes(true), signature.toBytes(true)]),
  ]);
  let sum = bls12_381.G1.Point.ZERO;
  const pairs: Parameters<typeof bls12_381.millerLoopBatch>[0] = [];
  items.forEach(({ hash, signature, key }, index) => {
    const factor = index === 0 ? 1n : factorOf(seed, index);
    sum = sum.add(index === 0 ? signature : signature.multiplyUnsafe(factor));
    const { x, y } = (index === 0 ? hash : hash.multiplyUnsafe(factor)).toAffine();
    pairs.push([key, x, y]);
  });
  if (sum.is0()) return false;
  const { x, y } = sum.negate().toAffine();
  pairs.push([generator, x, y]);
  return Fp12.eql(Fp12.finalExponentiate(bls12_381.millerLoopBatch(pairs)), Fp12.ONE);
}

/** A secret key from 48 bytes of randomness. */
export function secretKeyOf(seed: Uint8Array): bigint {
  return Fr.fromBytes(bls12_381.utils.randomSecretKey(seed));
}

export function publicKeyOf(secret: bigint): KeyPoint {
  return bls12_381.G2.Point.BASE.multiply(secret);
}

/** With the sum of several secret keys this is the aggregate of their signatures. */
export function sign(message: Uint8Array, tag: string, secrets: readonly bigint[]): Uint8Array {
  const sum = secrets.reduce((total, secret) => Fr.add(total, secret), 0n);
  return hashToPoint(message, tag).multiply(sum).toBytes(true);
}

/** 128 bits: the chance to pass with a wrong signature is 2^-128. */
function factorOf(seed: Uint8Array, index: number): bigint {
  return hex(sha3(Buffer.concat([seed, Buffer.of(index)])).subarray(0, 16)) | 1n;
}

/** The standard writes the halves of a coordinate the other way round; the flags stand in the first byte of either. */
function swapHalves(bytes: Uint8Array): Uint8Array {
  const swapped = Buffer.concat([bytes.subarray(HALF_KEY_BYTES), bytes.subarray(0, HALF_KEY_BYTES)]);
  const flags = (bytes[0] ?? 0) & FLAGS;
  if (((swapped[0] ?? 0) & FLAGS) !== 0) return Buffer.alloc(0);
  swapped[0] = (swapped[0] ?? 0) | flags;
  swapped[HALF_KEY_BYTES] = (swapped[HALF_KEY_BYTES] ?? 0) & ~FLAGS;
  return swapped;
}

/** The library throws for every encoding that it refuses. */
function pointOf<P extends { is0(): boolean }>(decode: () => P): P | undefined {
  try {
    const point = decode();
    return point.is0() ? undefined : point;
  } catch {
    return undefined;
  }
}
