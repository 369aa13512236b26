import { expect, it } from 'vitest';
import { ChainGenerator } from '../../../src/devnet/index.js';
import { toIdentifier, type Identifier } from '../../../src/flow/index.js';
import { BlockHasher, BlockProver, checkDocument, loadCertificates } from '../../../src/proof/index.js';
import { preimagesOf, readHeader } from '../../../src/proof/index.js';
import type { Committee, VerifyCertificate } from '../../../src/proof/index.js';
import { readProtocolState } from '../../../src/proof/committee/protocolState.js';
import { bothCheckers } from '../../support/bothCheckers.js';
import { seededRandom } from '../../support/seededRandom.js';

const { prepareCommittee, verifyCertificate } = await loadCertificates();

const ROOT = 40;
const BLOCK = 50;
/** The last header holds the certificate for the one before. */
const LAST = 56;
const chain = new ChainGenerator({
  ...{ hashedIds: true, rootHeight: ROOT, certifiedFrom: LAST, minorityFrom: LAST + 1 },
});
const prover = new BlockProver({ chainId: chain.chainId });
const hasher = new BlockHasher();

function storedAt(height: number) {
  const { encoded, hashed } = chain.block(height);
  const proving = prover.prove(Buffer.concat([encoded, hashed?.extras ?? Buffer.alloc(0)]));
  if (proving.kind !== 'proven') throw new Error(`block ${height} is not proven`);
  const stored = [proving.block.encoded, proving.proof, chain.chainId] as const;
  return { ...preimagesOf(...stored, hasher), fields: readHeader(...stored) };
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const headersTo = (last: number): string[] =>
  Array.from({ length: last - BLOCK + 1 }, (_, index) => hex(storedAt(BLOCK + index).header));

const anchor = storedAt(ROOT);
const read = readProtocolState(chain.snapshot(ROOT) ?? '', toIdentifier(anchor.fields.protocolStateId));
if (!read.ok) throw new Error(read.reason);
const { parts } = read;
const step = {
  headers: [hex(anchor.header)],
  roots: hex(anchor.roots),
  protocolState: hex(parts.protocolState),
  epochState: hex(parts.epochState),
  events: parts.events.map(hex),
};
const { guarantees, roots } = storedAt(BLOCK);
const document = {
  version: 1,
  headers: headersTo(LAST),
  guarantees: guarantees.map(hex),
  otherRoots: hex(roots.subarray(32)),
  way: [step],
};
const trusted = `${ROOT}:${chain.blockId(ROOT)}`;

const prepared = new Map<string, ReturnType<typeof prepareCommittee>>();
const verify: VerifyCertificate = (certificate, committee: Committee) => {
  const key = JSON.stringify(committee);
  const known = prepared.get(key) ?? prepareCommittee(committee);
  prepared.set(key, known);
  return verifyCertificate(certificate, known);
};

const check = (text: string, from = trusted) => bothCheckers(text, from, verify);
const changed = (changes: object): string => JSON.stringify({ ...document, ...changes });

it('proves a block final from the id of an anchor below it, a collection of it too, and its transactions where they are asked for', () => {
  const block = `block ${BLOCK}:${chain.blockId(BLOCK)} of ${chain.chainId}`;
  expect(check(changed({}))).toEqual([
    expect.stringMatching(`^${block}, with ${guarantees.length} collections, is final$`),
  ]);
  expect(checkDocument(changed({}), undefined, verify)).toMatchObject({ ok: true, from: trusted });
  const [first] = chain.block(BLOCK).collections;
  const collection = hex(first!.transactionIds).match(/.{64}/g) ?? [];
  const [final, said, ...more] = check(changed({ collection })) ?? [];
  expect([final, said, more]).toEqual([expect.stringContaining('is final'), expect.any(String), []]);
  expect(said).toContain(`collection ${first!.id}, number 0 of the block`);
  expect(check(changed({ collection, transaction: collection.at(-1) }))).toHaveLength(3);
});

it('lets a bug of the verification through', () => {
  const bug = () => {
    throw new TypeError('a bug');
  };
  expect(() => checkDocument(changed({}), trusted, bug)).toThrow('a bug');
});

it('reaches later committees by blocks that are proven final on the way', () => {
  const further = storedAt(LAST - 2);
  const state = readProtocolState(
    chain.snapshot(LAST - 2) ?? '',
    toIdentifier(further.fields.protocolStateId),
  );
  if (!state.ok) throw new Error(state.reason);
  const headers = [LAST - 2, LAST - 1, LAST].map((height) => hex(storedAt(height).header));
  const second = { ...step, headers, roots: hex(further.roots) };
  expect(check(changed({ way: [step, second] }))).toHaveLength(1);
  expect(check(changed({ way: [step, { ...second, headers: headers.slice(0, 2) }] }))).toBeUndefined();
  expect(check(changed({ way: [step, { ...second, roots: step.roots }] }))).toBeUndefined();
  expect(check(changed({ way: [{ ...step, headers }, second] }))).toBeUndefined();
});

it('is refused with a certificate of a minority, and without one', () => {
  for (const last of [LAST - 1, LAST + 1])
    expect(check(changed({ headers: headersTo(last) }))).toBeUndefined();
  expect(check(changed({ headers: headersTo(BLOCK + 1) }))).toBeUndefined();
  for (const changes of [
    ...[{ way: undefined }, { way: [] }, { way: [{ ...step, events: step.events.slice(0, 1) }] }],
    ...[
      { headers: [] },
      { headers: 7 },
      { guarantees: ['ab'.repeat(32)] },
      { guarantees: ['ab'.repeat(5e6)] },
    ],
  ])
    expect(check(changed(changes))).toBeUndefined();
  expect(check(changed({}), `${ROOT}:${chain.blockId(ROOT + 1) satisfies Identifier}`)).toBeUndefined();
});

it('is refused with any bit flipped that is hashed or signed for', () => {
  const text = changed({});
  const random = seededRandom(11);
  for (let round = 0; round < 50; round++) {
    const bytes = Buffer.from(text);
    const position = Math.floor(random.next() * bytes.length);
    bytes[position]! ^= 1 << Math.floor(random.next() * 8);
    const said = check(bytes.toString());
    if (!isInLastHeader(bytes)) expect(said, `position ${position}`).toBeUndefined();
  }
});

/** The last block's own id is not signed for, only its parent's: of its header the certificate alone is covered. */
function isInLastHeader(bytes: Buffer): boolean {
  const rest = (of: typeof document): string => JSON.stringify({ ...of, headers: of.headers.slice(0, -1) });
  try {
    return rest(JSON.parse(bytes.toString()) as typeof document) === rest(document);
  } catch {
    return false;
  }
}
