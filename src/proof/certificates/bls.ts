// Flow's BLS signatures: BLS12-381, signatures in G1, keys in G2. Curve and pairing are those of the standard; the
// hash to the field (KMAC128 in place of expand_message_xmd) and the order of the halves of a key are Flow's own.
import { bls12_381 } from '@noble/curves/bls12-381.js';
import { kmac128 } from '@noble/hashes/sha3-addons.js';
import { sha3 } from '../../flow/index.js';

type SignaturePoint = InstanceType<typeof bls12_381.G1.Point>;
export type KeyPoint = InstanceType<typeof bls12_381.G2.Point>;

export const SIGNATURE_BYTES = 48;
const KEY_BYTES = 96;

const { Fp, Fp12 } = bls12_381.fields;
const Point1 = bls12_381.G1.Point;
const Point2 = bls12_381.G2.Point;
const HALF_KEY_BYTES = KEY_BYTES / 2;
/** Compressed, infinity, sign: the upper bits of the first byte of a point. */
const FLAGS = 0xe0;
const CIPHER_SUITE = 'BLS_SIG_BLS12381G1_XOF:KMAC128_SSWU_RO_POP_';
const FIELD_HASH_BYTES = 128;

const numberOf = (bytes: Uint8Array): bigint => BigInt(`0x${Buffer.from(bytes).toString('hex')}`);

/** A message as a point of G1. `tag` separates the domains of signatures. */
export function hashToPoint(message: Uint8Array, tag: string): SignaturePoint {
  const bytes = kmac128(Buffer.from(tag + CIPHER_SUITE), message, {
    personalization: Buffer.from('H2C'),
    dkLen: FIELD_HASH_BYTES,
  });
  // The type covers every curve: over a prime field it takes one number, and returns a point of the group.
  const mapToGroup = bls12_381.G1.mapToCurve as unknown as (element: bigint) => SignaturePoint;
  const half = (from: number): SignaturePoint =>
    mapToGroup(Fp.create(numberOf(bytes.subarray(from, from + FIELD_HASH_BYTES / 2))));
  return half(0).add(half(FIELD_HASH_BYTES / 2));
}

/** From hex. `undefined` unless it is a point of the group, and not infinity. */
export function decodeKey(hexKey: string): KeyPoint | undefined {
  const bytes = Buffer.from(hexKey, 'hex');
  return bytes.length === KEY_BYTES ? pointOf(() => Point2.fromBytes(swapHalves(bytes))) : undefined;
}

export function encodeKey(key: KeyPoint): string {
  return swapHalves(Buffer.from(key.toBytes(true))).toString('hex');
}

/** `undefined` if a key is missing, or the sum is infinity. */
export function sumOf(keys: readonly (KeyPoint | undefined)[]): KeyPoint | undefined {
  let sum = Point2.ZERO;
  for (const key of keys) {
    if (key === undefined) return undefined;
    sum = sum.add(key);
  }
  return sum.is0() ? undefined : sum;
}

/**
 * Whether the holders of all these keys signed the message, each in its own domain. All are checked at once: each further
 * signature counts with a factor that depends on all of them, so that several wrong ones cannot cancel out. `context`
 * must name the keys.
 */
export function verifySignatures(
  message: Uint8Array,
  expected: readonly { readonly tag: string; readonly key: KeyPoint | undefined }[],
  signatures: readonly Uint8Array[],
  context: Uint8Array,
): boolean {
  let sum = Point1.ZERO;
  const pairs: ReturnType<typeof pairOf>[] = [];
  for (const [index, { tag, key }] of expected.entries()) {
    const bytes = signatures[index];
    const signature = bytes?.length === SIGNATURE_BYTES ? pointOf(() => Point1.fromBytes(bytes)) : undefined;
    if (signature === undefined || key === undefined) return false;
    const factor = index === 0 ? 1n : factorOf([context, message, ...signatures, Buffer.of(index)]);
    sum = sum.add(signature.multiplyUnsafe(factor));
    pairs.push(pairOf(hashToPoint(message, tag).multiplyUnsafe(factor), key));
  }
  if (sum.is0()) return false;
  pairs.push(pairOf(sum.negate(), Point2.BASE));
  return Fp12.eql(Fp12.finalExponentiate(bls12_381.millerLoopBatch(pairs)), Fp12.ONE);
}

/** The library's own pairing would check again that each point is in the group, a seventh of the total time. */
function pairOf(point: SignaturePoint, key: KeyPoint) {
  const { x, y } = point.toAffine();
  return [bls12_381.utils.calcPairingPrecomputes(key), x, y] satisfies Parameters<
    typeof bls12_381.millerLoopBatch
  >[0][number];
}

/** 128 bits: wrong signatures pass with probability 2^-128. */
function factorOf(parts: readonly Uint8Array[]): bigint {
  return numberOf(sha3(Buffer.concat(parts)).subarray(0, 16)) | 1n;
}

/** The standard has the halves of a coordinate in the opposite order; the flags are in the first byte in both. */
function swapHalves(bytes: Buffer): Buffer {
  const swapped = Buffer.concat([bytes.subarray(HALF_KEY_BYTES), bytes.subarray(0, HALF_KEY_BYTES)]);
  const [first, second] = [bytes.readUInt8(0), bytes.readUInt8(HALF_KEY_BYTES)];
  if ((second & FLAGS) !== 0) return Buffer.alloc(0);
  swapped.writeUInt8(second | (first & FLAGS), 0);
  swapped.writeUInt8(first & ~FLAGS, HALF_KEY_BYTES);
  return swapped;
}

/** `undefined` for every encoding that the library refuses, by an exception. */
function pointOf<P extends { is0(): boolean }>(decode: () => P): P | undefined {
  try {
    const point = decode();
    return point.is0() ? undefined : point;
  } catch {
    return undefined;
  }
}
