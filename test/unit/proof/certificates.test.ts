import { bls12_381 } from '@noble/curves/bls12-381.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { signCertificate, signingKeyOf } from '../../../src/devnet/chain/signCertificate.js';
import { toIdentifier } from '../../../src/flow/index.js';
import { certificateThread, provenFinal } from '../../../src/proof/index.js';
import type { Certificate, Committee } from '../../../src/proof/index.js';
import { prepareCommittee, verifyCertificate } from '../../../src/proof/certificates/verifyCertificate.js';
import { knownAnswers, recordedBlocks } from '../../support/proofData.js';

const known = knownAnswers('qc-v0.51.json') as {
  committee: { nodeId: Certificate['blockId']; stakingPubKey: string; weight: number }[];
  groupKey: string;
  qc: { View: number; BlockID: Certificate['blockId']; SignerIndices: string; SigData: string };
};
const knownCommittee: Committee = {
  epoch: 1,
  members: known.committee.map(({ nodeId, stakingPubKey, weight }) => ({
    ...{ nodeId, weight },
    stakingKey: Buffer.from(stakingPubKey, 'base64').toString('hex'),
  })),
  beaconKey: known.groupKey,
};
const knownCertificate: Certificate = {
  view: known.qc.View,
  blockId: known.qc.BlockID,
  voterIndices: Buffer.from(known.qc.SignerIndices, 'base64'),
  voterSigData: Buffer.from(known.qc.SigData, 'base64'),
};
type Member = Committee['members'][number];
const prepared = prepareCommittee(knownCommittee);
const verdictOf = (certificate: Certificate, committee = prepared) =>
  verifyCertificate(certificate, committee);

/** A committee of our own, so that anything can be signed. */
const keys = Array.from({ length: 7 }, (_, index) => signingKeyOf(Buffer.alloc(48, index + 1)));
const beacon = signingKeyOf(Buffer.alloc(48, 99));
const own: Committee = {
  epoch: 5,
  members: keys.map(({ publicKey }, index) => ({
    nodeId: toIdentifier(Buffer.alloc(32, index + 1)),
    stakingKey: publicKey,
    weight: 100,
  })),
  beaconKey: beacon.publicKey,
};
const blockId = toIdentifier(Buffer.alloc(32, 0xb0));
const signed = (signers: readonly number[]): Certificate =>
  signCertificate({ view: 77, blockId }, { committee: own, keys, signers, beacon });

function flipped(bytes: Uint8Array, bit: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[bit >> 3]! ^= 0x80 >> (bit & 7);
  return copy;
}

describe('a certificate', () => {
  it('of the reference implementation is valid', () => {
    expect(verdictOf(knownCertificate)).toEqual({ valid: true, signers: 8, weight: 800, threshold: 734 });
    const others = prepareCommittee({ ...knownCommittee, members: knownCommittee.members.slice(1) });
    expect(verdictOf(knownCertificate, others)).toEqual({ valid: false, reason: 'another committee voted' });
  });

  it('is invalid once a bit of it, or of a signer’s key, is flipped', () => {
    const { voterIndices, voterSigData, view } = knownCertificate;
    const [first, second, ...others] = knownCommittee.members as [Member, Member, ...Member[]];
    const turnedKey = (key: string, bit: number) => flipped(Buffer.from(key, 'hex'), bit).toString('hex');
    const turned = (of: Member, bit: number) => ({ ...of, stakingKey: turnedKey(of.stakingKey, bit) });
    const changes: [number, (bit: number) => [Certificate, Committee?]][] = [
      [8 * voterIndices.length, (bit) => [{ ...knownCertificate, voterIndices: flipped(voterIndices, bit) }]],
      [8 * voterSigData.length, (bit) => [{ ...knownCertificate, voterSigData: flipped(voterSigData, bit) }]],
      [32, (bit) => [{ ...knownCertificate, view: (view ^ (1 << bit)) >>> 0 }]],
      [
        256,
        (bit) => [
          { ...knownCertificate, blockId: toIdentifier(flipped(Buffer.from(known.qc.BlockID, 'hex'), bit)) },
        ],
      ],
      // The second member signed.
      [
        768,
        (bit) => [knownCertificate, { ...knownCommittee, members: [first, turned(second, bit), ...others] }],
      ],
      [768, (bit) => [knownCertificate, { ...knownCommittee, beaconKey: turnedKey(known.groupKey, bit) }]],
    ];
    const change = fc.oneof(
      ...changes.map(([bits, make]) => fc.nat(bits - 1).map((bit) => [bit, make] as const)),
    );
    fc.assert(
      fc.property(change, ([bit, make]) => {
        const [certificate, committee] = make(bit);
        expect(verdictOf(certificate, committee && prepareCommittee(committee)).valid).toBe(false);
      }),
      { numRuns: 24 },
    );
  });

  it('of a committee whose secrets are known is valid with more than two thirds of the weight only', () => {
    const committee = prepareCommittee(own);
    expect(verdictOf(signed([0, 2, 3, 5, 6]), committee)).toEqual({
      ...{ valid: true, signers: 5, weight: 500, threshold: 467 },
    });
    const minority = verdictOf(signed([0, 2, 3, 5]), committee);
    expect(minority).toEqual({ valid: false, reason: 'the signers weigh 400 of 700, less than 467' });
    // The bits of a majority over the signature of a minority.
    const { voterIndices } = signed([0, 1, 2, 3, 4]);
    const { voterSigData } = signed([0, 1, 2, 3]);
    for (const sigData of [voterSigData, signed([0, 1, 2, 3, 5]).voterSigData]) {
      const forged = { view: 77, blockId, voterIndices, voterSigData: sigData };
      expect(verdictOf(forged, committee).valid).toBe(false);
    }
  });

  it('is checked without the beacon where the key of the beacon is not known', () => {
    const { beaconKey: _, ...members } = own;
    const other = signingKeyOf(Buffer.alloc(48, 98));
    const signing = { committee: own, keys, signers: [0, 1, 2, 3, 4], beacon: other };
    const certificate = signCertificate({ view: 77, blockId }, signing);
    expect(verdictOf(certificate, prepareCommittee(members)).valid).toBe(true);
    expect(verdictOf(certificate, prepareCommittee(own)).valid).toBe(false);
    const { beacon: __, ...withoutBeacon } = signing;
    const blank = signCertificate({ view: 77, blockId }, withoutBeacon);
    expect(verdictOf(blank, prepareCommittee(members)).valid).toBe(true);
  });

  it.each([
    ['is no key', ''],
    ['is infinity', 'c0'.padEnd(192, '0')],
    ['has flags where there are none', flipped(Buffer.from(own.members[0]!.stakingKey, 'hex'), 8 * 48)],
    // The sign of its point is the third bit.
    ['cancels out the other one', flipped(Buffer.from(own.members[0]!.stakingKey, 'hex'), 2)],
  ])('of two signers, the key of one of whom %s, is invalid', (_, key) => {
    const [first, second] = own.members as [Member, Member];
    const committee = { ...own, members: [first, { ...second, stakingKey: key.toString('hex') }] };
    const signing = { committee, keys, signers: [0, 1], beacon };
    const certificate = signCertificate({ view: 77, blockId }, signing);
    expect(verdictOf(certificate, prepareCommittee(committee))).toEqual({
      ...{ valid: false, reason: 'the signatures do not hold' },
    });
  });

  it('whose signatures are wrong in ways that cancel out is invalid', () => {
    const committee = prepareCommittee(own);
    const { voterIndices, voterSigData } = signed([0, 1, 2, 3, 4]);
    const [staking, ofBeacon] = [voterSigData.length - 98, voterSigData.length - 48];
    const { Point } = bls12_381.G1;
    const moved = (from: number, by: bigint): Uint8Array =>
      Point.fromBytes(voterSigData.subarray(from, from + 48))
        .add(Point.BASE.multiply(by))
        .toBytes();
    const wrong = Buffer.from(voterSigData);
    wrong.set(moved(staking, 5n), staking);
    wrong.set(moved(ofBeacon, bls12_381.fields.Fr.ORDER - 5n), ofBeacon);
    const certificate = { view: 77, blockId, voterIndices, voterSigData: wrong };
    expect(verdictOf(certificate, committee).valid).toBe(false);
  });

  it('that is no certificate at all is invalid', () => {
    const committee = prepareCommittee(own);
    const good = signed([0, 1, 2, 3, 4]);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 120 }), (junk) => {
        for (const part of [{ voterIndices: junk }, { voterSigData: junk }])
          expect(verdictOf({ ...good, ...part }, committee).valid).toBe(false);
      }),
      { numRuns: 40 },
    );
    const padded = Buffer.from(good.voterIndices);
    padded[padded.length - 1]! |= 1;
    expect(verdictOf({ ...good, voterIndices: padded }, committee)).toEqual({
      ...{ valid: false, reason: 'the voter indices have bits beyond the committee' },
    });
    const none = { ...good, voterIndices: new Uint8Array(), voterSigData: new Uint8Array() };
    expect(verdictOf(none, committee)).toEqual({ valid: false, reason: 'it is empty' });
    const infinity = Buffer.from(good.voterSigData);
    infinity.fill(0, infinity.length - 48).set([0xc0], infinity.length - 48);
    expect(verdictOf({ ...good, voterSigData: infinity }, committee).valid).toBe(false);
  });
});

const valid = { valid: true, signers: 2, weight: 200, threshold: 134 } as const;
const run = recordedBlocks().filter(({ height }) => height <= 52);

it('the rule of finality refuses an invalid certificate, one of another view, and blocks that are no chain', async () => {
  expect(await provenFinal(run, () => ({ valid: false, reason: 'forged' }))).toEqual({
    ...{ kind: 'refused', height: 52, reason: 'forged' },
  });
  const last = run.at(-1)!;
  for (const change of [{ parentView: last.parentView - 1 }, { parentId: last.id }]) {
    const verdict = await provenFinal([...run.slice(0, -1), { ...last, ...change }], () => valid);
    expect(verdict).toMatchObject({ kind: 'refused', height: 52 });
  }
});

it('the thread of certificates gives each question its answer, takes one at a time, rejects what waits when it ends or fails, and starts again', async () => {
  const asked: object[] = [];
  let answer: (verdict: object) => void = () => undefined;
  let end = (): void => undefined;
  let fail: (error: Error) => void = () => undefined;
  const thread = certificateThread(() => ({
    postMessage: (question) => asked.push(question),
    on: (event: string, listener: never) => {
      if (event === 'message') answer = listener;
      else if (event === 'exit') end = listener;
      else fail = listener;
    },
    terminate: () => undefined,
  }));
  const verify = () => thread.verify(knownCertificate, knownCommittee);
  for (const valid of [true, false]) {
    const verdict = verify();
    await expect(verify()).rejects.toThrow('while another one is');
    answer({ valid });
    expect(await verdict).toEqual({ valid });
  }
  const late = answer;
  const waiting = verify();
  end();
  await expect(waiting).rejects.toThrow('ended');
  const failing = verify();
  late({ valid: true });
  fail(new Error('no memory'));
  await expect(failing).rejects.toThrow('failed: no memory');
  const cut = verify();
  thread.close();
  await expect(cut).rejects.toThrow('closed');
  expect(asked).toHaveLength(5);
});
