import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeEach, expect, it } from 'vitest';
import type { ProofDocument } from '../../../src/api/index.js';
import { sha3Identifier } from '../../../src/flow/index.js';
import { bothCheckers, checkProof } from '../../support/bothCheckers.js';
import { HashedChain, scratchDirectory, ServedChain, transactionIds } from '../../support/index.js';

const FIRST = 100;
const LATEST = 130;
const UNPROVEN = 101;
const hashed = new HashedChain({ rootHeight: FIRST });
const entries = [
  ...hashed.entries(FIRST, FIRST),
  ...hashed.entries(UNPROVEN, UNPROVEN, { isProven: false }),
  ...hashed.entries(UNPROVEN + 1, LATEST),
];
const checker = fileURLToPath(new URL('../../../docs/examples/check-proof.mjs', import.meta.url));
const never = () => ({ valid: false, reason: 'no document here has a certificate' }) as const;

const at = (height: number) => entries[height - FIRST]!;
const trusted = (height: number): string => `${height}:${at(height).block.id}`;
/** A block with several collections, the last of which has several transactions. */
const whole = entries.find(
  ({ block, collections }) =>
    block.height > UNPROVEN &&
    block.height < LATEST - 5 &&
    collections.length > 1 &&
    (collections.at(-1)?.ranges.length ?? 0) > 2,
)!;
const { height } = whole.block;
const collection = whole.collections.at(-1)!;
const place = whole.collections.length - 1;
const inCollection = transactionIds(whole, place);
const transaction = inCollection.at(-1)!;

let served: ServedChain;
beforeEach(async () => {
  served = await ServedChain.start(entries, { sealed: null });
});
const ask = (path: string) => served.get(`/proof/${path}`);
const proofOf = async (path: string): Promise<string> => {
  const { status, body } = await ask(path);
  expect(status).toBe(200);
  return JSON.stringify(body);
};

it('prove a transaction, its collection and its block from the id of a block above', async () => {
  const text = await proofOf(`transaction/${transaction}?to=${height + 5}`);
  expect(checkProof(text, trusted(height + 5))).toEqual([
    `block ${trusted(height)} of flow-localnet, with ${place + 1} collections`,
    `collection ${collection.id}, number ${place} of the block, with ${inCollection.length} transactions`,
    `transaction ${transaction}, number ${inCollection.length - 1} of the collection`,
  ]);
  const { headers } = JSON.parse(text) as ProofDocument;
  expect(headers.map((each) => sha3Identifier(Buffer.from(each, 'hex')))).toEqual(
    Array.from({ length: 6 }, (_, index) => at(height + index).block.id),
  );
});

it('prove every block, and each of its collections, from its own id', async () => {
  for (const { block, collections } of entries.filter((each) => each.block.height !== UNPROVEN)) {
    const proven = checkProof(await proofOf(`block/${block.id}`), trusted(block.height));
    expect(proven).toEqual([
      `block ${trusted(block.height)} of flow-localnet, with ${collections.length} collections`,
    ]);
  }
  expect(checkProof(await proofOf('block/latest'), trusted(LATEST))).toHaveLength(1);
  for (const { id } of whole.collections) {
    const proven = checkProof(await proofOf(`collection/${id}`), trusted(height));
    expect(proven[1]).toContain(`collection ${id}`);
  }
});

// With bytes changed: the fuzz target proof-document.
it('are refused with parts of other proofs, and from another id', async () => {
  const of = async (path: string) => JSON.parse(await proofOf(path)) as ProofDocument;
  const proof = await of(`transaction/${transaction}?to=${height + 2}`);
  const other = await of(`block/${height + 1}`);
  const check = (changes: object) => () =>
    checkProof(JSON.stringify({ ...proof, ...changes }), trusted(height + 2));
  expect(bothCheckers(JSON.stringify(proof), trusted(height + 2), never)).toHaveLength(3);
  expect(() => checkProof(JSON.stringify(proof), trusted(height + 1))).toThrow('all follows from');
  expect(check({ guarantees: other.guarantees })).toThrow('the payload does not fit the header');
  expect(check({ guarantees: proof.guarantees.toReversed() })).toThrow('the payload does not fit');
  expect(check({ guarantees: [...proof.guarantees, proof.guarantees[0]] })).toThrow('twice');
  expect(check({ headers: [proof.headers[0], proof.headers[2]] })).toThrow('header 1 does not follow');
  const reversed = proof.collection?.toReversed();
  expect(check({ collection: reversed })).toThrow('the collection is not in the block');
  expect(check({ transaction: 'ab'.repeat(32) })).toThrow('the transaction is not in the collection');
  expect(check({ collection: undefined })).toThrow('the transaction has no collection');
  expect(check({ more: 1 })).toThrow('a field that is not known');
  for (const text of ['null', '1', '[]', '{}', '{"version":1,"headers":[1],"guarantees":[]}'])
    expect(bothCheckers(text, trusted(height), never), text).toBeUndefined();
});

it.each([
  ['block/103?to=102', 400, 'invalid_argument'],
  ['block/103?to=1103', 400, 'invalid_argument'],
  ['block/103?to=1102', 404, 'not_yet_indexed'],
  [`block/${FIRST}?to=${UNPROVEN + 1}`, 409, 'unproven'],
])('%s is answered with %i, %s', async (path, status, reason) => {
  expect(await ask(path)).toMatchObject({ status, body: { reason } });
});

it('are checked by a program of its own, which says what follows or what does not fit', async () => {
  const file = join(scratchDirectory(), 'proof.json');
  writeFileSync(file, await proofOf(`block/${height}`));
  const run = (...args: string[]) =>
    new Promise<{ code: unknown; out: string }>((resolve) => {
      execFile(process.execPath, [checker, ...args], (error, stdout, stderr) => {
        resolve({ code: error?.code ?? 0, out: stdout + stderr });
      });
    });
  const runs = [run(file, trusted(height)), run(file, trusted(height + 1)), run(file)];
  expect(await Promise.all(runs)).toMatchObject([
    { code: 0, out: expect.stringContaining(`block ${trusted(height)}`) as string },
    { code: 65, out: expect.stringContaining('Not proven: all follows from') as string },
    { code: 64 },
  ]);
});
