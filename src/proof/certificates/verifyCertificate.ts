import { crc32 } from 'node:zlib';
import { encodeRlp, identifierBytes, sha3 } from '../../flow/index.js';
import type { Identifier } from '../../flow/index.js';
import { thresholdOf, weightOf } from '../committee/committee.js';
import type { Committee } from '../committee/committee.js';
import * as bls from './bls.js';

/** A quorum certificate: more than two thirds of a committee voted for a block. */
export interface Certificate {
  readonly view: number;
  readonly blockId: Identifier;
  readonly voterIndices: Uint8Array;
  readonly voterSigData: Uint8Array;
}

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

export type CertificateVerdict =
  | { readonly valid: true; readonly signers: number; readonly weight: number; readonly threshold: number }
  | { readonly valid: false; readonly reason: string };

const CHECKSUM_BYTES = 4;

/**
 * A committee with what verification needs of it again and again. A key is decoded when its owner first signs: some
 * 2 ms each.
 */
export interface PreparedCommittee {
  readonly committee: Committee;
  readonly checksum: Uint8Array;
  readonly digest: Uint8Array;
  readonly totalWeight: number;
  readonly generator: bls.PreparedKey;
  readonly stakingKeyOf: (index: number) => bls.KeyPoint | undefined;
  readonly beaconKey: () => bls.PreparedKey | undefined;
}

export function prepareCommittee(committee: Committee): PreparedCommittee {
  const { members, beaconKey } = committee;
  const keys = new Map<number, bls.KeyPoint | undefined>();
  let preparedBeaconKey: bls.PreparedKey | undefined;
  return {
    committee,
    checksum: checksumOf(committee),
    digest: digestOf(committee),
    totalWeight: weightOf(committee),
    generator: bls.prepareGenerator(),
    stakingKeyOf: (index) => {
      if (!keys.has(index))
        keys.set(index, bls.decodeKey(Buffer.from(members[index]?.stakingKey ?? '', 'hex')));
      return keys.get(index);
    },
    beaconKey: () => {
      if (preparedBeaconKey === undefined && beaconKey !== undefined) {
        const key = bls.decodeKey(Buffer.from(beaconKey, 'hex'));
        preparedBeaconKey = key && bls.prepareKey(key);
      }
      return preparedBeaconKey;
    },
  };
}

/**
 * Whether more than two thirds of the committee's weight signed for this block and view. The beacon's signature is
 * checked too where its key is known, as the network itself does: no part of the certificate can then be changed.
 * Whatever a node may send is a verdict, never an error. 20 to 30 ms, and the decoding of keys not seen before.
 */
export function verifyCertificate(
  certificate: Certificate,
  prepared: PreparedCommittee,
  rules: CertificateRules,
): CertificateVerdict {
  const { committee, checksum, totalWeight, digest } = prepared;
  const signers = readIndices(certificate.voterIndices, checksum, committee.members.length);
  if (typeof signers === 'string') return invalid(signers);
  const weight = signers.reduce((sum, index) => sum + (committee.members[index]?.weight ?? 0), 0);
  const threshold = thresholdOf(totalWeight);
  if (weight < threshold) return invalid(`only ${weight} of ${totalWeight} signed, ${threshold} must`);
  const signatures = readSigData(certificate.voterSigData, signers.length);
  if (typeof signatures === 'string') return invalid(signatures);

  const staking = bls.decodeSignature(signatures.staking);
  if (staking === undefined) return invalid('the votes are no signature');
  const message = messageOf(certificate, rules);
  const keys = signers.map((index) => prepared.stakingKeyOf(index));
  if (!areDecoded(keys)) return invalid('a key of the committee is not valid');
  const sum = bls.sumOf(keys);
  if (sum === undefined) return invalid('the keys cancel out');
  const signed = [
    { hash: bls.hashToPoint(message, rules.voteTag), signature: staking, key: bls.prepareKey(sum) },
  ];
  if (committee.beaconKey !== undefined) {
    const key = prepared.beaconKey();
    if (key === undefined) return invalid('the key of the beacon is not valid');
    const signature = bls.decodeSignature(signatures.beacon);
    if (signature === undefined) return invalid('the beacon is no signature');
    signed.push({ hash: bls.hashToPoint(message, rules.beaconTag), signature, key });
  }
  const context = Buffer.concat([digest, certificate.voterIndices]);
  if (!bls.verifySignatures(signed, prepared.generator, context))
    return invalid('the signatures do not hold');
  return { valid: true, signers: signers.length, weight, threshold };
}

/** What the members sign. */
export function messageOf(
  { view, blockId }: Pick<Certificate, 'view' | 'blockId'>,
  rules: CertificateRules,
): Uint8Array {
  if (rules.message === 'hash') return sha3(encodeRlp([identifierBytes(blockId), view]));
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(view));
  return Buffer.concat([bytes, identifierBytes(blockId)]);
}

/** The checksum of the committee, and a bit for each member, from the most significant on. */
export function writeIndices(committee: Committee, signers: readonly number[]): Uint8Array {
  const bits = Buffer.alloc(bytesForBits(committee.members.length));
  for (const index of signers) bits[index >> 3] = (bits[index >> 3] ?? 0) | (0x80 >> (index & 7));
  return Buffer.concat([checksumOf(committee), bits]);
}

/** The signatures of a certificate; a bit for each signer says that it signed with its staking key. */
export function writeSigData(signers: number, staking: Uint8Array, beacon: Uint8Array): Uint8Array {
  return encodeRlp([Buffer.alloc(bytesForBits(signers)), staking, '', beacon]);
}

/** Indices of members, or what is wrong. */
function readIndices(bytes: Uint8Array, checksum: Uint8Array, members: number): number[] | string {
  if (bytes.length !== CHECKSUM_BYTES + bytesForBits(members)) return 'the voter indices have a wrong length';
  if (!Buffer.from(bytes.subarray(0, CHECKSUM_BYTES)).equals(checksum)) return 'another committee voted';
  const signers: number[] = [];
  for (let bit = 0; bit < 8 * (bytes.length - CHECKSUM_BYTES); bit++) {
    if (((bytes[CHECKSUM_BYTES + (bit >> 3)] ?? 0) & (0x80 >> (bit & 7))) === 0) continue;
    if (bit >= members) return 'the voter indices have bits beyond the committee';
    signers.push(bit);
  }
  return signers;
}

/** The layout is fixed, so the bytes are cut and written again: what differs is another layout. */
function readSigData(
  bytes: Uint8Array,
  signers: number,
): { staking: Uint8Array; beacon: Uint8Array } | string {
  const beacon = bytes.subarray(-bls.SIGNATURE_BYTES);
  // Before the beacon: its header and the empty signature of the beacon's shares.
  const end = bytes.length - bls.SIGNATURE_BYTES - 2;
  const staking = bytes.subarray(Math.max(0, end - bls.SIGNATURE_BYTES), Math.max(0, end));
  if (!Buffer.from(writeSigData(signers, staking, beacon)).equals(bytes)) {
    return 'the signatures have a form that is not known';
  }
  return { staking, beacon };
}

/** Names a committee and all its keys. */
export function digestOf({ members, beaconKey }: Committee): Buffer {
  return sha3(Buffer.from(JSON.stringify([members, beaconKey])));
}

function checksumOf({ members }: Committee): Uint8Array {
  const checksum = Buffer.alloc(CHECKSUM_BYTES);
  checksum.writeUInt32BE(crc32(Buffer.concat(members.map(({ nodeId }) => identifierBytes(nodeId)))));
  return checksum;
}

function bytesForBits(bits: number): number {
  return Math.ceil(bits / 8);
}

function areDecoded(keys: readonly (bls.KeyPoint | undefined)[]): keys is readonly bls.KeyPoint[] {
  return !keys.includes(undefined);
}

function invalid(reason: string): CertificateVerdict {
  return { valid: false, reason };
}
