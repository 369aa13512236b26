import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import protobuf from 'protobufjs8';
import { toIdentifier, type Block, type CollectionGuarantee } from '../../src/flow/index.js';
import { type Identifier, type Transaction, type TransactionSignature } from '../../src/flow/index.js';
import { seededRandom } from './seededRandom.js';

/** The messages of `proto/`, read by protobufjs: a second opinion on every decoder and encoder. */
export function loadMessages(): (name: string) => protobuf.Type {
  const root = new protobuf.Root();
  const folder = fileURLToPath(new URL('../../proto/', import.meta.url));
  root.resolvePath = (_origin, target) => (target.startsWith('google/') ? target : folder + target);
  root.loadSync(['flow/access/access.proto', 'flow/executiondata/executiondata.proto'], { keepCase: true });
  return (name) => root.lookupType(name);
}

const messages = loadMessages();

const uint64: fc.Arbitrary<bigint> = fc.oneof(
  fc.bigInt({ min: 0n, max: 300n }),
  fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }),
);
export const uint32: fc.Arbitrary<number> = fc.oneof(fc.nat(300), fc.nat(0xffffffff));

/** Buffers, so that `toEqual` compares them with views of a message. */
export const bytes = (constraints: fc.IntArrayConstraints): fc.Arbitrary<Buffer> =>
  fc.uint8Array(constraints).map((array) => Buffer.from(array));

const hash32 = bytes({ minLength: 32, maxLength: 32 });
export const identifier: fc.Arbitrary<Identifier> = hash32.map(toIdentifier);

/** Few different ones, so that signers meet their signatures; also zero, short and long ones. */
const address = fc
  .oneof(
    { weight: 6, arbitrary: fc.constantFrom('f8d6e0586b0a20c7', '0000000000000001', '8624b52f9ddcd04a') },
    { weight: 1, arbitrary: fc.constantFrom('0000000000000000', '', '01', 'fff8d6e0586b0a20c7') },
  )
  .map((hex) => Buffer.from(hex, 'hex'));

const payloads = fc.oneof(
  { weight: 4, arbitrary: bytes({ maxLength: 80 }) },
  // Around the lengths at which RLP and varint headers grow.
  {
    weight: 1,
    arbitrary: fc.constantFrom(1, 55, 56, 127, 128, 255, 256, 16_384).map((n) => Buffer.alloc(n, 7)),
  },
  { weight: 1, arbitrary: fc.constant(Buffer.from('{"type":"UInt8","value":"7"}\n')) },
);

const signature: fc.Arbitrary<TransactionSignature> = fc.record({
  address,
  keyId: uint32,
  signature: bytes({ maxLength: 70 }),
  extensionData: fc.oneof(
    fc.constant(Buffer.alloc(0)),
    fc.constant(Buffer.alloc(1)),
    bytes({ maxLength: 60 }),
  ),
});

export const transaction: fc.Arbitrary<Transaction> = fc.record({
  script: payloads,
  arguments: fc.array(payloads, { maxLength: 4 }),
  referenceBlockId: fc.oneof(
    { weight: 5, arbitrary: hash32 },
    { weight: 1, arbitrary: bytes({ maxLength: 40 }) },
  ),
  gasLimit: uint64,
  proposalKey: fc.option(fc.record({ address, keyId: uint32, sequenceNumber: uint64 }), { nil: undefined }),
  payer: address,
  authorizers: fc.array(address, { maxLength: 4 }),
  payloadSignatures: fc.array(signature, { maxLength: 3 }),
  envelopeSignatures: fc.array(signature, { maxLength: 3 }),
});

export const guarantee: fc.Arbitrary<CollectionGuarantee> = fc.record({
  collectionId: identifier,
  referenceBlockId: hash32,
  signature: bytes({ maxLength: 48 }),
  signatures: fc.array(bytes({ maxLength: 20 }), { maxLength: 2 }),
  signerIds: fc.array(hash32, { maxLength: 2 }),
  signerIndices: bytes({ maxLength: 8 }),
  clusterChainId: bytes({ maxLength: 40 }),
});

export const block: fc.Arbitrary<Block> = fc.record({
  id: identifier,
  parentId: identifier,
  height: fc.oneof(fc.nat(200), fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER })),
  timestamp: fc.option(
    fc.record({
      seconds: fc.bigInt({ min: -62_135_596_800n, max: 253_402_300_799n }),
      nanos: fc.integer({ min: 0, max: 999_999_999 }),
    }),
    { nil: undefined },
  ),
  guarantees: fc.array(guarantee, { maxLength: 4 }),
  signatures: fc.array(bytes({ maxLength: 50 }), { maxLength: 2 }),
});

/** A message as a list of fields, for tests that write it in ways no good encoder would. */
export interface Field {
  readonly number: number;
  readonly repeated?: boolean;
  readonly value: bigint | Uint8Array | readonly Field[];
}

export function transactionFields(tx: Transaction): Field[] {
  return fieldsOf(messages('flow.entities.Transaction'), tx);
}

export function blockFields(from: Block): Field[] {
  return fieldsOf(messages('flow.entities.Block'), { ...from, collectionGuarantees: from.guarantees });
}

/** Those of our values that the message has, in its order. We name them as it does, and have ids as texts. */
function fieldsOf(type: protobuf.Type, values: object): Field[] {
  return type.fieldsArray.flatMap((field) => {
    const { id: number, name, repeated, resolvedType } = field.resolve();
    const given = Reflect.get(values, protobuf.util.jsonName(name)) as unknown;
    if (given === undefined) return [];
    return (repeated ? (given as unknown[]) : [given]).map((each): Field => {
      if (resolvedType instanceof protobuf.Type)
        return { number, repeated, value: fieldsOf(resolvedType, each as object) };
      if (typeof each === 'string') return { number, repeated, value: Buffer.from(each, 'hex') };
      if (each instanceof Uint8Array) return { number, repeated, value: each };
      return { number, repeated, value: BigInt.asUintN(64, BigInt(each as number | bigint)) };
    });
  });
}

export type Choose = (bound: number) => number;

/** In an encoding as bad as the choices have it: another order, unknown fields, long numbers, defaults, several singular fields. */
export function scrambled(fields: readonly Field[], choose: Choose): Buffer {
  const queues = new Map<number, Field[]>();
  for (const field of fields) {
    const queue = queues.get(field.number) ?? [];
    queues.set(field.number, queue);
    if (field.repeated !== true && choose(4) === 0) queue.push(decoy(field));
    queue.push(field);
  }
  const parts: Buffer[] = [];
  while (queues.size > 0) {
    if (choose(4) === 0) parts.push(unknownField(choose));
    const numbers = [...queues.keys()];
    const number = numbers[choose(numbers.length)] ?? 0;
    const queue = queues.get(number) ?? [];
    const field = queue.shift();
    if (queue.length === 0) queues.delete(number);
    if (field !== undefined) parts.push(encodeField(field, choose));
  }
  return Buffer.concat(parts);
}

/** An earlier occurrence of a singular field, which the later one overrides (or, being empty, is merged into it). */
function decoy(field: Field): Field {
  if (typeof field.value === 'bigint') return { ...field, value: 77n };
  if (field.value instanceof Uint8Array) return { ...field, value: Buffer.from('overridden') };
  return { ...field, value: field.value.map(decoy) };
}

function encodeField(field: Field, choose: Choose): Buffer {
  if (typeof field.value === 'bigint') {
    return Buffer.concat([
      longVarint(BigInt(field.number << 3), choose, 5),
      longVarint(field.value, choose, 10),
    ]);
  }
  const content = field.value instanceof Uint8Array ? field.value : scrambled(field.value, choose);
  return lengthDelimited(field.number, content, choose);
}

function lengthDelimited(number: number, content: Uint8Array, choose: Choose): Buffer {
  return Buffer.concat([
    longVarint(BigInt((number << 3) | 2), choose, 5),
    longVarint(BigInt(content.length), choose, 5),
    content,
  ]);
}

/** Of any wire type, groups included; always a field number that Flow does not use. */
function unknownField(choose: Choose): Buffer {
  const tag = (wireType: number): Buffer => longVarint(BigInt((1000 << 3) | wireType), choose, 5);
  switch (choose(5)) {
    case 0:
      return Buffer.concat([tag(0), longVarint(12345n, choose, 10)]);
    case 1:
      return Buffer.concat([tag(1), Buffer.alloc(8, 1)]);
    case 2:
      return lengthDelimited(1000, Buffer.from('unknown'), choose);
    case 3:
      return Buffer.concat([tag(3), unknownField(choose), tag(4)]);
    default:
      return Buffer.concat([tag(5), Buffer.alloc(4, 1)]);
  }
}

/** A varint, sometimes with more bytes than it needs. */
function longVarint(value: bigint, choose: Choose, maxBytes: number): Buffer {
  const out: number[] = [];
  let rest = value;
  do {
    out.push(Number(rest & 0x7fn));
    rest >>= 7n;
  } while (rest > 0n);
  if (choose(4) === 0) {
    const target = Math.min(out.length + 1 + choose(3), maxBytes);
    while (out.length < target) out.push(0);
  }
  return Buffer.from(out.map((byte, index) => (index < out.length - 1 ? byte | 0x80 : byte)));
}

export const choices: fc.Arbitrary<Choose> = fc.integer().map((seed) => {
  const random = seededRandom(seed);
  return (bound) => Math.floor(random.next() * bound);
});

/** The same with its bytes as text: to compare those one by one takes seconds. */
export function inHex(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex');
  if (Array.isArray(value)) return value.map(inHex);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, inHex(each)]));
}
