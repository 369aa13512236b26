/** What locating and verifying a block of execution data costs, against hashing the same bytes and nothing else. */
import { hash } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import {
  collectionIdOf,
  decodeBlockMessage,
  decodeExecutionDataResponse,
  decodeFullCollectionResponse,
  encodeBlock,
  encodeFullCollection,
  encodeTransaction,
  toIdentifier,
  transactionId,
  VerificationMemory,
  verifyBlockCollections,
  verifyCollection,
  WireWriter,
  ZERO_ID,
  type Block,
  type Identifier,
} from '../../src/flow/index.js';
import { seededRandom } from '../../src/runtime/random.js';
import { bench, digits } from './lib/report.js';
import { interleave, median, ratioOf } from './lib/statistics.js';

const COLLECTIONS = 5;
const TRANSACTIONS = 10;
const SHA3_ALONE = 'sha3 of the same bytes, and nothing else';
const ROUNDS = 41;
const REPEATS = 60;
/** The RLP form of these transactions is within a few bytes of the wire form: as many blocks of SHA3. */
const random = seededRandom(7);

function bytes(length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => Math.floor(random.next() * 256)));
}

function transaction(): Uint8Array {
  const payer = bytes(8);
  const signature = { address: payer, keyId: 1, signature: bytes(64), extensionData: bytes(0) };
  return encodeTransaction({
    script: bytes(330),
    arguments: [bytes(70), bytes(40), bytes(30)],
    referenceBlockId: bytes(32),
    gasLimit: 9999n,
    proposalKey: { address: payer, keyId: 1, sequenceNumber: 5043n },
    payer,
    authorizers: [payer],
    payloadSignatures: [],
    envelopeSignatures: [signature],
  });
}

const collections = Array.from({ length: COLLECTIONS }, () =>
  Array.from({ length: TRANSACTIONS }, transaction),
);
const flat = collections.flat();
const guarantees = collections.map((wires) => ({
  collectionId: collectionIdOf(Buffer.concat(wires.map(transactionId))),
  referenceBlockId: bytes(32),
  signature: bytes(48),
  signatures: [],
  signerIds: [],
  signerIndices: bytes(6),
  clusterChainId: bytes(40),
}));
const blockId = toIdentifier(bytes(32));
const light = (overrides: Partial<Block>): Uint8Array =>
  encodeBlock({
    id: blockId,
    parentId: ZERO_ID,
    height: 137_390_146,
    timestamp: { seconds: 1_770_000_000n, nanos: 123_456_789 },
    guarantees,
    signatures: [bytes(48)],
    ...overrides,
  });
const filled = light({});
const empty = light({ guarantees: [] });
const block = decodeBlockMessage(filled);

const chunk = (wires: readonly Uint8Array[]): Buffer =>
  new WireWriter().element(1, encodeFullCollection(wires)).finish();
const message = new WireWriter()
  .number(1, block.height)
  .element(
    2,
    new WireWriter()
      .bytes(1, Buffer.from(blockId, 'hex'))
      .elements(2, [...collections.map(chunk), chunk([transaction()])])
      .finish(),
  )
  .finish();
const located = decodeExecutionDataResponse(message);
const answer = encodeFullCollection(collections[0] ?? []);

let sink = 0;
const memory = new VerificationMemory();
const use = (id: Identifier | undefined): void => {
  sink += id === undefined ? 1 : id.length;
};

const subjects: Record<string, () => void> = {
  [SHA3_ALONE]: () => {
    for (const wire of flat) sink += hash('sha3-256', wire, 'binary').length;
    for (let index = 0; index < COLLECTIONS; index++)
      sink += hash('sha3-256', filled.subarray(0, 336), 'hex').length;
  },
  locate: () => {
    sink += decodeExecutionDataResponse(message).chunks.length;
  },
  verify: () => {
    sink += verifyBlockCollections(block, located, memory).length;
  },
  'locate + verify': () => {
    sink += verifyBlockCollections(block, decodeExecutionDataResponse(message), memory).length;
  },
  'one collection, as the requester gets it': () => {
    sink += verifyCollection(block.collectionIds[0]!, decodeFullCollectionResponse(answer), memory).encoded
      .length;
  },
  'light block, 5 guarantees': () => {
    use(decodeBlockMessage(filled).id);
  },
  'light block, empty': () => {
    use(decodeBlockMessage(empty).id);
  },
};

await bench(
  {
    title: 'Verification',
    about:
      'Locating the transactions of an execution-data message, writing their RLP form and hashing transactions and ' +
      'collections to the ids that the block guarantees, against nothing but SHA3-256 over the same bytes. In process.',
  },
  async ({ quick }) => {
    const samples = await interleave(
      Object.fromEntries(
        Object.entries(subjects).map(([name, run]) => [
          name,
          () => microsecondsOf(run, quick ? 20 : REPEATS),
        ]),
      ),
      { rounds: quick ? 5 : ROUNDS },
    );
    if (sink === 0) throw new Error('nothing was hashed');
    const own = (name: string): number[] => samples[name] ?? [];
    return {
      tables: [
        {
          title: `A block of ${COLLECTIONS} × ${TRANSACTIONS}, a message of ${message.length} bytes`,
          columns: ['step', 'µs'],
          rows: Object.keys(subjects).map((name) => [name, digits(median(own(name)))]),
        },
      ],
      figures: [
        {
          what: 'verification ÷ pure SHA3',
          value: ratioOf(own('locate + verify'), own(SHA3_ALONE)),
          atMost: 1.6,
        },
      ],
    };
  },
);

function microsecondsOf(run: () => void, repeats: number): number {
  const start = performance.now();
  for (let repeat = 0; repeat < repeats; repeat++) run();
  return ((performance.now() - start) * 1000) / repeats;
}
