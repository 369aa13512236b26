/** What locating and verifying a block of execution data costs, against hashing the same bytes and nothing else. */
import { hash } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { Chain } from '../../src/devnet/index.js';
import {
  decodeBlockMessage,
  decodeExecutionDataResponse,
  decodeFullCollectionResponse,
  VerificationMemory,
  verifyBlockCollections,
  verifyCollection,
} from '../../src/flow/index.js';
import { bench, digits } from './lib/report.js';
import { interleave, median, ratioOf } from './lib/statistics.js';

const ROUNDS = 41;
const REPEATS = 60;
/** Ten ids of 32 bytes with the heads of their lists: what the id of a collection is the hash of. */
const COLLECTION_RLP_BYTES = 336;

const chain = new Chain({ profile: 'dense' });
const generated = chain.block(7);
const message = chain.executionData(7);
const located = decodeExecutionDataResponse(message);
const block = decodeBlockMessage(generated.encoded);
const [first] = generated.collections;
if (first === undefined) throw new Error('the block has no collection');
const answer = Buffer.from(first.encoded);
/** The RLP form of these transactions is within a few bytes of the wire form: as many blocks of SHA3. */
const wires = generated.collections.flatMap(({ transactions }) => transactions);
const memory = new VerificationMemory();
let sink = 0;

const subjects = {
  'sha3 of the same bytes, and nothing else': () => {
    for (const wire of wires) sink += hash('sha3-256', wire, 'binary').length;
    for (const { encoded } of generated.collections)
      sink += hash('sha3-256', encoded.subarray(0, COLLECTION_RLP_BYTES), 'hex').length;
  },
  locate: () => (sink += decodeExecutionDataResponse(message).chunks.length),
  verify: () => (sink += verifyBlockCollections(block, located, memory).length),
  'locate + verify': () =>
    (sink += verifyBlockCollections(block, decodeExecutionDataResponse(message), memory).length),
  'one collection, as the requester gets it': () =>
    (sink += verifyCollection(first.id, decodeFullCollectionResponse(answer), memory).encoded.length),
  'light block, 5 guarantees': () => (sink += decodeBlockMessage(generated.encoded).id.length),
};

await bench(
  {
    title: 'Verification',
    about:
      'Locating the transactions of an execution-data message, writing their RLP form and hashing transactions and ' +
      'collections to the ids that the block guarantees, against nothing but SHA3-256 over the same bytes. In process.',
  },
  async ({ quick }) => {
    const repeats = quick ? 20 : REPEATS;
    const measured = Object.entries<() => unknown>(subjects).map(([name, run]): [string, () => number] => [
      name,
      () => {
        const startedAtMs = performance.now();
        for (let repeat = 0; repeat < repeats; repeat += 1) run();
        return ((performance.now() - startedAtMs) * 1000) / repeats;
      },
    ]);
    const samples = await interleave(Object.fromEntries(measured), { rounds: quick ? 5 : ROUNDS });
    if (sink === 0) throw new Error('nothing was hashed');
    const own = (name: keyof typeof subjects): number[] => samples[name] ?? [];
    return {
      tables: [
        {
          title: `A block of ${generated.collections.length} × ${first.transactions.length}, a message of ${message.length} bytes`,
          columns: ['step', 'µs'],
          rows: Object.entries(samples).map(([name, values]) => [name, digits(median(values))]),
        },
      ],
      figures: [
        {
          what: 'verification ÷ pure SHA3',
          value: ratioOf(own('locate + verify'), own('sha3 of the same bytes, and nothing else')),
          atMost: 1.6,
        },
      ],
    };
  },
);
