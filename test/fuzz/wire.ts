import fc from 'fast-check';
import * as flow from '../../src/flow/index.js';
import type { Identifier } from '../../src/flow/index.js';
import { block, blockFields, scrambled, transaction, transactionFields } from '../support/flowWire.js';
import { mutated, noise } from './mutation.js';
import { insist, insistReadable, type Choices, type FuzzTarget, type Run } from './target.js';

const POOL = 64;
const POOL_SEED = 4;
/** Depths and counts of what only an attacker sends. */
const DEEP = [90, 99, 100, 101, 1_000, 60_000];

interface Sample {
  readonly bytes: Uint8Array;
  /** What a full collection hashes to. */
  readonly id?: Identifier;
}

/** One decoder with messages that it accepts, and what must hold of whatever it accepts. */
interface Decoder {
  readonly samples: readonly Sample[];
  decode(bytes: Uint8Array, sample: Sample): void;
}

/** Protobuf messages as access nodes send them, and as no access node would. */
export const wireTarget: FuzzTarget = { name: 'wire', share: 780, open: openDecoders };

function openDecoders(): Run {
  const decoders = Object.entries(makeDecoders());
  const all = decoders.flatMap(([, { samples }]) => samples);
  const message = (choices: Choices, valid: Uint8Array): Uint8Array => {
    if (choices.once(12)) return noise(choices, choices.below(300));
    return choices.once(400) ? monster(choices, valid) : mutated(choices, valid, choices.of(all).bytes);
  };
  return (choices) => {
    const [name, decoder] = choices.of(decoders);
    const sample = choices.of(decoder.samples);
    const untouched = choices.once(20);
    const bytes = untouched ? sample.bytes : message(choices, sample.bytes);
    const input = () => ({ decoder: name, bytes: Buffer.from(bytes).toString('hex') });
    try {
      decoder.decode(bytes, sample);
      return 'accepted';
    } catch (error) {
      const expected = error instanceof flow.WireError || error instanceof flow.InvalidCollectionError;
      if (!expected) throw new Error(`${String(error)} from ${JSON.stringify(input())}`, { cause: error });
      insist(!untouched, `a valid message was refused: ${error.message}`, input);
      insistReadable(error.message, input);
      if (error instanceof flow.InvalidCollectionError) return `${error.name} ${error.reason}`;
      return error.message.replaceAll(/\d+/g, 'N');
    }
  };
}

/** Messages that are large or deep rather than wrong. */
function monster(choices: Choices, valid: Uint8Array): Buffer {
  const depth = choices.of(DEEP);
  const field = (wireType: number): number => ((choices.below(9) + 1) << 3) | wireType;
  const nested = (): Buffer => {
    let inner: Buffer = Buffer.from(valid);
    for (let left = Math.min(depth, 2_000); left > 0; left -= 1)
      inner = new flow.WireWriter().element(choices.below(9) + 1, inner).finish();
    return inner;
  };
  const ends = choices.once(2) ? depth : 0;
  return choices.of<() => Buffer>([
    // Groups within groups, and messages within messages, each as long as what is in it.
    () => Buffer.concat([Buffer.alloc(depth, 0x0b), Buffer.alloc(ends, 0x0c), valid]),
    nested,
    // Very many fields of no content, and very many numbers.
    () => Buffer.alloc(depth * 2, Buffer.from([field(2), 0])),
    () => Buffer.alloc(depth * 2, Buffer.from([field(0), 1])),
    // The same message over and over, which protobuf merges.
    () => Buffer.concat(Array.from({ length: Math.min(depth, 300) }, () => valid)),
    // A length of gigabytes.
    () => Buffer.concat([Buffer.from([field(2), 0xff, 0xff, 0xff, 0xff, 0x0f]), valid]),
  ])();
}

function makeDecoders(): Readonly<Record<string, Decoder>> {
  const of = <T>(arbitrary: fc.Arbitrary<T>): T[] => fc.sample(arbitrary, { numRuns: POOL, seed: POOL_SEED });
  let turn = 0;
  const worst = (bound: number): number => (turn = (turn * 31 + 7) % 997) % bound;

  const blocks = of(block);
  const blockBytes = blocks.flatMap((each) => [flow.encodeBlock(each), scrambled(blockFields(each), worst)]);
  const transactionBytes = of(transaction).flatMap((each) => [
    ...[flow.encodeTransaction(each), scrambled(transactionFields(each), worst)],
  ]);
  const collections = transactionBytes.map((_, index) => {
    const wires = transactionBytes.slice(index, index + (index % 5));
    const id = flow.collectionIdOf(Buffer.concat(wires.map(flow.transactionId)));
    return { bytes: flow.encodeFullCollection(wires), id };
  });
  const executionData = collections.map(({ bytes }, index) => {
    const chunk = new flow.WireWriter().element(1, bytes).finish();
    const chunks = Array.from({ length: index % 4 }, () => chunk);
    const inner = new flow.WireWriter().element(1, Buffer.alloc(32, index)).elements(2, chunks).finish();
    return new flow.WireWriter().number(1, index).element(2, inner).finish();
  });
  const wrapped = (field: number, all: readonly Uint8Array[]): Sample[] =>
    all.map((bytes) => ({ bytes: new flow.WireWriter().element(field, bytes).number(2, 1).finish() }));
  const plain = (all: readonly Uint8Array[]): Sample[] => all.map((bytes) => ({ bytes }));

  return {
    block: { samples: plain(blockBytes), decode: (bytes) => checkBlock(bytes) },
    blockResponse: {
      samples: wrapped(1, blockBytes),
      decode: (bytes) => void flow.decodeBlockResponse(bytes),
    },
    blockStream: {
      samples: wrapped(1, blockBytes),
      decode: (bytes) => void flow.decodeSubscribeBlocksResponse(bytes),
    },
    transaction: { samples: plain(transactionBytes), decode: (bytes) => checkTransaction(bytes) },
    transactionResponse: {
      samples: wrapped(1, transactionBytes),
      decode: (bytes) => checkTransaction(flow.decodeTransactionResponse(bytes)),
    },
    lightCollection: {
      samples: blocks.map(({ guarantees }) => {
        const ids = guarantees.map(({ collectionId }) => flow.identifierBytes(collectionId));
        const light = new flow.WireWriter().elements(2, ids).finish();
        return { bytes: new flow.WireWriter().element(1, light).finish() };
      }),
      decode: (bytes) => void flow.decodeCollectionResponse(bytes),
    },
    collection: {
      samples: collections,
      decode: (bytes, { id }) => {
        if (id === undefined) throw new Error('a sample without an id');
        checkCollection(bytes, id);
      },
    },
    executionData: { samples: plain(executionData), decode: checkExecutionData },
  };
}

/** Both readers of a block agree, and what is stored of it reads back as the same. */
function checkBlock(bytes: Uint8Array): void {
  const [stored] = agreeing(bytes, 'the readers of a block', flow.decodeBlockMessage, flow.decodeBlock);
  const again = flow.decodeBlock(stored.encoded);
  insist(again.id === stored.id && again.height === stored.height, 'a stored block differs', () => bytes);
  const isCanonical = Buffer.from(flow.encodeBlock(again)).equals(Buffer.from(stored.encoded));
  insist(isCanonical, 'the stored form of a block is not canonical', () => bytes);
}

/** Decoding and hashing accept the same bytes, and the canonical form has the same id. */
function checkTransaction(bytes: Uint8Array): void {
  const [decoded, id] = agreeing(bytes, 'decoding and hashing', flow.decodeTransaction, flow.transactionId);
  const canonical = flow.encodeTransaction(decoded);
  insist(flow.transactionId(canonical).equals(id), 'the canonical form has another id', () => bytes);
  const isStable = flow.encodeTransaction(flow.decodeTransaction(canonical)).equals(canonical);
  insist(isStable, 'the canonical form is not stable', () => bytes);
}

/** What two readers make of the bytes; both take them, or neither does. */
function agreeing<A, B>(
  bytes: Uint8Array,
  readers: string,
  one: (bytes: Uint8Array) => A,
  other: (bytes: Uint8Array) => B,
): [A, B] {
  const attempt = <T>(read: (bytes: Uint8Array) => T): T | flow.WireError => {
    try {
      return read(bytes);
    } catch (error) {
      if (error instanceof flow.WireError) return error;
      throw error;
    }
  };
  const [first, second] = [attempt(one), attempt(other)];
  const isAgreed = first instanceof flow.WireError === second instanceof flow.WireError;
  insist(isAgreed, `${readers} disagree`, () => bytes);
  if (first instanceof flow.WireError) throw first;
  if (second instanceof flow.WireError) throw second;
  return [first, second];
}

/** Nothing but the collection itself passes for the collection. */
function checkCollection(bytes: Uint8Array, id: Identifier): void {
  const collection = flow.verifyCollection(id, flow.splitCollection(bytes));
  const ids = flow.splitCollection(collection.encoded).map((wire) => flow.transactionId(wire));
  insist(
    flow.collectionIdOf(Buffer.concat(ids)) === id,
    'what passed for the collection is not it',
    () => bytes,
  );
}

function checkExecutionData(bytes: Uint8Array): void {
  const data = flow.decodeExecutionDataResponse(bytes);
  const collectionIds = data.chunks
    .slice(0, -1)
    .map((wires) => flow.collectionIdOf(Buffer.concat(wires.map(flow.transactionId))));
  const { height, blockId: id } = data;
  const collections = flow.verifyBlockCollections({ ...emptyBlock, id, height, collectionIds }, data);
  insist(collections.length === collectionIds.length, 'a collection of a block is missing', () => bytes);
}

const emptyBlock = { parentId: flow.ZERO_ID, encoded: new Uint8Array(0) };
