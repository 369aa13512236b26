import { crc32 } from 'node:zlib';
import { encodeRlp, identifierBytes, sha3 } from '../../flow/index.js';
import { thresholdOf, weightOf, type Committee } from '../committee/committee.js';
import * as bls from './bls.js';
import type { Certificate, CertificateVerdict, Vote } from './provenFinal.js';

const CHECKSUM_BYTES = 4;
/** The domains of both signatures, since flow-go 0.29 (mainnet21): no committee is proven for earlier sporks. */
export const VOTE_TAG = 'FLOW-Consensus_Vote-V00-CS00-with-';
export const BEACON_TAG = 'FLOW-Random_Beacon-V00-CS00-with-';

export type PreparedCommittee = Readonly<ReturnType<typeof prepareCommittee>>;

/** A committee with its keys decoded, 2 ms each: prepare it once. `undefined` for an invalid key. */
export function prepareCommittee(committee: Committee) {
  return {
    committee,
    digest: digestOf(committee),
    checksum: checksumOf(committee),
    stakingKeys: committee.members.map(({ stakingKey }) => bls.decodeKey(stakingKey)),
    beaconKey: committee.beaconKey === undefined ? undefined : bls.decodeKey(committee.beaconKey),
  };
}

/**
 * Whether more than two thirds of the committee's weight signed for this block and view. If the beacon's key is known, its
 * signature is checked too, as the network does. Finality does not need it, and it takes a third of the time; but its keys
 * are generated for each epoch, so stolen old staking keys are not enough. Bad input from a node is a verdict, never an error.
 * Takes tens of milliseconds.
 */
export function verifyCertificate(certificate: Certificate, prepared: PreparedCommittee): CertificateVerdict {
  const { committee, digest, stakingKeys, beaconKey } = prepared;
  const signers = readIndices(certificate.voterIndices, prepared.checksum, stakingKeys.length);
  if (typeof signers === 'string') return { valid: false, reason: signers };
  const weight = signers.reduce((sum, index) => sum + (committee.members[index]?.weight ?? 0), 0);
  const total = weightOf(committee);
  const threshold = thresholdOf(total);
  if (weight < threshold)
    return { valid: false, reason: `the signers weigh ${weight} of ${total}, less than ${threshold}` };
  const signatures = readSigData(certificate.voterSigData, signers.length);
  if (signatures === undefined) return { valid: false, reason: 'the signatures have an unknown form' };

  const message = messageOf(certificate);
  const votes = { tag: VOTE_TAG, key: bls.sumOf(signers.map((index) => stakingKeys[index])) };
  const beacon = { tag: BEACON_TAG, key: beaconKey };
  const expected = committee.beaconKey === undefined ? [votes] : [votes, beacon];
  const context = Buffer.concat([digest, certificate.voterIndices]);
  if (!bls.verifySignatures(message, expected, signatures, context))
    return { valid: false, reason: 'the signatures do not hold' };
  return { valid: true, signers: signers.length, weight, threshold };
}

/** What the members sign. */
export function messageOf({ view, blockId }: Vote): Uint8Array {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(view));
  return Buffer.concat([bytes, identifierBytes(blockId)]);
}

/** The signatures of a certificate; a bit for each signer says that it signed with its staking key. */
export function writeSigData(signers: number, staking: Uint8Array, beacon: Uint8Array): Uint8Array {
  return encodeRlp([Buffer.alloc(bytesForBits(signers)), staking, '', beacon]);
}

/** The indices of members, or what is wrong with them. */
function readIndices(bytes: Uint8Array, checksum: Uint8Array, members: number): number[] | string {
  if (bytes.length === 0) return 'it is empty';
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

/**
 * The signatures of votes and beacon. The layout is fixed, so the bytes are split and written again: if the result differs,
 * they had another layout.
 */
function readSigData(bytes: Uint8Array, signers: number): Uint8Array[] | undefined {
  // In front of the beacon's signature: its header, and an empty item for signatures of shares.
  const beaconAt = bytes.length - bls.SIGNATURE_BYTES;
  const votesAt = beaconAt - 2 - bls.SIGNATURE_BYTES;
  if (votesAt < 0) return undefined;
  const votes = bytes.subarray(votesAt, votesAt + bls.SIGNATURE_BYTES);
  const beacon = bytes.subarray(beaconAt);
  const isKnown = Buffer.from(writeSigData(signers, votes, beacon)).equals(bytes);
  return isKnown ? [votes, beacon] : undefined;
}

/** A hash that identifies a committee and all its keys. */
export function digestOf({ members, beaconKey }: Committee): Buffer {
  return sha3(Buffer.from(JSON.stringify([members, beaconKey])));
}

/** In front of the indices of those who voted. */
export function checksumOf({ members }: Committee): Uint8Array {
  const checksum = Buffer.alloc(CHECKSUM_BYTES);
  checksum.writeUInt32BE(crc32(Buffer.concat(members.map(({ nodeId }) => identifierBytes(nodeId)))));
  return checksum;
}

function bytesForBits(bits: number): number {
  return Math.ceil(bits / 8);
}
