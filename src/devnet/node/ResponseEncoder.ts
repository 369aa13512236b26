import { encodeFullCollection, identifierBytes, sha3, WireReader, WireWriter } from '../../flow/index.js';
import type { Chain, CollectionPlace } from '../chain/Chain.js';
import type { GeneratedBlock, GeneratedCollection } from '../chain/ChainGenerator.js';
import {
  encodeExecutionDataAnswer,
  encodeExecutionDataResponse,
  type ExecutionDataParts,
} from '../chain/ExecutionDataMaker.js';
import type { Lie } from '../faults/faultRules.js';
import { encodeHeader, encodeFullExtras } from '../chain/encodeHeader.js';
import { garbled, garbledBytes, lieInFullBlock, lieInLightBlock } from './blockLies.js';

const OTHER_CHAIN = 'flow-benchnet';
const SMALL_FIELD_BYTES = 128;
/** Field of the voters' signatures in `flow.entities.Block`. */
const SIGNATURES_FIELD = 7;
const OVERSIZE_BYTES = 8 * 1024 * 1024;
/** How far a lie searches for a collection other than the one asked for. */
const OTHER_BODY_SEARCH_HEIGHTS = 64;

export type BlockStatusNumber = 0 | 1 | 2;

/** Encodes each answer and each lie about it. Callers append metadata as encoded fields. */
export class ResponseEncoder {
  readonly #chain: Chain;

  constructor(dependencies: { readonly chain: Chain }) {
    this.#chain = dependencies.chain;
  }

  /** An empty message. */
  empty(lie?: Lie): Buffer {
    return finish(Buffer.alloc(0), lie);
  }

  networkParameters(lie?: Lie): Buffer {
    const chainId =
      lie?.fault === 'other_chain' ? (lie.chainId ?? OTHER_CHAIN) : this.#chain.generator.chainId;
    return finish(new WireWriter().text(1, chainId).finish(), lie);
  }

  nodeVersionInfo(info: { readonly nodeRootHeight: number }, lie?: Lie): Buffer {
    const { sporkId, rootHeight, ids } = this.#chain.generator;
    const isOther = lie?.fault === 'other_spork' || lie?.fault === 'false_spork';
    const falseRoot = lie?.fault === 'false_spork' ? lie.rootHeight : undefined;
    const isNamed = lie?.fault === 'false_spork' && lie.named === true;
    const other = isNamed ? ids.idAt(lie.rootHeight) : ids.derive('another spork');
    const sporkBytes = isOther ? other : identifierBytes(sporkId);
    const encoded = new WireWriter()
      .text(1, 'v0.43.0')
      .text(2, 'devnet')
      .bytes(3, sporkBytes)
      .number(5, falseRoot ?? rootHeight)
      .number(6, falseRoot ?? info.nodeRootHeight)
      .number(8, 2)
      .finish();
    return finish(new WireWriter().element(1, encoded).finish(), lie);
  }

  /** `ProtocolStateSnapshotResponse` at a height. */
  snapshot(height: number, metadata: Uint8Array, lie?: Lie): Buffer {
    const snapshot = this.#chain.generator.snapshot(height) ?? '';
    const said =
      lie?.fault === 'wrong_body' ? snapshot.replaceAll('"InitialWeight":', '"InitialWeight":9') : snapshot;
    return finish(new WireWriter().text(1, said).element(2, metadata).finish(), lie);
  }

  /** `BlockResponse` and `BlockHeaderResponse` alike. */
  blockResponse(body: Uint8Array, status: BlockStatusNumber, metadata: Uint8Array, lie?: Lie): Buffer {
    const encoded = new WireWriter()
      .element(1, body)
      .number(2, lie?.fault === 'orphaned' ? 0 : status)
      .element(3, metadata)
      .finish();
    return finish(encoded, lie);
  }

  block(block: GeneratedBlock, isFull: boolean, lie?: Lie): Uint8Array {
    const subject = this.#subject(block, lie);
    const light = lieInLightBlock(subject, lie);
    if (!isFull) return light;
    return lieInFullBlock(fullForm(light, encodeFullExtras(this.#chain.generator, subject)), lie);
  }

  header(block: GeneratedBlock, lie?: Lie): Uint8Array {
    const subject = this.#subject(block, lie);
    if (lie === undefined && subject.hashed !== undefined) return subject.hashed.header;
    return encodeHeader(this.#chain.generator, subject, {
      id: lie?.fault === 'wrong_body' ? garbled(subject.id) : subject.id,
      parentId: lie?.fault === 'wrong_parent' ? garbled(subject.parentId) : subject.parentId,
      chainId: lie?.fault === 'other_chain' ? (lie.chainId ?? OTHER_CHAIN) : this.#chain.generator.chainId,
    });
  }

  /** `SubscribeBlockDigestsResponse`. */
  digest(block: GeneratedBlock, lie?: Lie): Buffer {
    const subject = this.#subject(block, lie);
    const id = lie?.fault === 'wrong_body' ? garbled(subject.id) : subject.id;
    const { seconds, nanos } = subject.timestamp;
    const encoded = new WireWriter()
      .bytes(1, identifierBytes(id))
      .number(2, subject.height)
      .element(3, new WireWriter().number(1, seconds).number(2, nanos).finish())
      .finish();
    return finish(encoded, lie);
  }

  /** `SubscribeBlocksResponse` and `SubscribeBlockHeadersResponse` alike. */
  streamed(body: Uint8Array, lie?: Lie): Buffer {
    return finish(new WireWriter().element(1, body).finish(), lie);
  }

  /** `CollectionResponse`: the light form, ids only. */
  lightCollection(place: CollectionPlace, metadata: Uint8Array, lie?: Lie): Buffer {
    const collection = lie?.fault === 'other_body' ? this.#otherCollection(place) : collectionAt(place);
    const ids = splitIds(collection.transactionIds);
    const [first] = ids;
    if (lie?.fault === 'wrong_body') {
      ids[0] = first === undefined ? sha3(Buffer.alloc(0)) : garbledBytes(first);
    }
    const encoded = new WireWriter().bytes(1, identifierBytes(collection.id)).elements(2, ids).finish();
    return finish(new WireWriter().element(1, encoded).element(2, metadata).finish(), lie);
  }

  /** `FullCollectionResponse`. It has no id: the caller must compute it. */
  fullCollection(place: CollectionPlace, metadata: Uint8Array, lie?: Lie): Buffer {
    const collection = lie?.fault === 'other_body' ? this.#otherCollection(place) : collectionAt(place);
    const encoded = lie?.fault === 'wrong_body' ? garbledTransactions(collection) : collection.encoded;
    return finish(Buffer.concat([encoded, new WireWriter().element(2, metadata).finish()]), lie);
  }

  /** `TransactionResponse` of a transaction that occurs in every block. */
  systemTransaction(wire: Uint8Array, metadata: Uint8Array, lie?: Lie): Buffer {
    const body = lie?.fault === 'wrong_body' ? garbledBytes(wire) : wire;
    return finish(new WireWriter().element(1, body).element(2, metadata).finish(), lie);
  }

  /** `TransactionResponse`. */
  transaction(wire: Uint8Array, place: CollectionPlace, metadata: Uint8Array, lie?: Lie): Buffer {
    let body = wire;
    if (lie?.fault === 'wrong_body') body = garbledBytes(wire);
    if (lie?.fault === 'other_body') {
      const others = [...collectionAt(place).transactions, ...this.#otherCollection(place).transactions];
      body = others.find((other) => !other.equals(wire)) ?? garbledBytes(wire);
    }
    return finish(new WireWriter().element(1, body).element(2, metadata).finish(), lie);
  }

  /** `TransactionsResponse`: the transactions of the guaranteed collections, then those of the system chunk. */
  blockTransactions(block: GeneratedBlock, metadata: Uint8Array, lie?: Lie): Buffer {
    const subject = this.#subject(block, lie);
    const transactions: Uint8Array[] = subject.collections.flatMap((collection) => [
      ...collection.transactions,
    ]);
    transactions.push(...this.#chain.generator.systemTransactions(subject.height));
    const [first] = transactions;
    if (lie?.fault === 'wrong_body' && first !== undefined) transactions[0] = garbledBytes(first);
    return finish(new WireWriter().elements(1, transactions).element(2, metadata).finish(), lie);
  }

  /** `SubscribeExecutionDataResponse`. */
  executionDataMessage(block: GeneratedBlock, lie?: Lie): Buffer {
    if (lie === undefined) return this.#chain.executionData(block.height);
    return finish(encodeExecutionDataResponse(this.#executionData(block, lie)), lie);
  }

  /** `GetExecutionDataByBlockIDResponse`. */
  executionDataAnswer(block: GeneratedBlock, lie?: Lie): Buffer {
    const parts = this.#executionData(block, lie);
    return finish(encodeExecutionDataAnswer(parts), lie);
  }

  /** `SubscribeIndexedBlocksResponse`. */
  indexedBlock(block: GeneratedBlock, lie?: Lie): Buffer {
    const subject = lie?.fault === 'other_body' ? this.#subject(block, lie) : block;
    const stored = subject.collections.map(({ encoded }) => encoded);
    const indexed = new WireWriter()
      .number(1, block.height)
      .bytes(2, identifierBytes(subject.id))
      .element(3, this.block(subject, false))
      .elements(
        4,
        lieInChunks(subject, stored, (collection) => collection, lie),
      )
      .finish();
    return finish(new WireWriter().element(1, indexed).finish(), lie);
  }

  #executionData(block: GeneratedBlock, lie?: Lie): ExecutionDataParts {
    if (lie?.fault === 'other_body') {
      const other = this.#subject(block, lie);
      return { ...this.#chain.executionDataParts(other), height: block.height };
    }
    const parts = this.#chain.executionDataParts(block);
    return { ...parts, chunks: lieInChunks(block, parts.chunks, chunkOf, lie) };
  }

  /** The block in the answer: the one asked for, its orphan, or a neighbour. */
  #subject(block: GeneratedBlock, lie?: Lie): GeneratedBlock {
    const { generator } = this.#chain;
    if (lie?.fault === 'orphaned') return generator.block(block.height, 'orphan');
    if (lie?.fault !== 'other_body') return block;
    return this.#chain.block(block.height > generator.rootHeight ? block.height - 1 : block.height + 1);
  }

  #otherCollection(place: CollectionPlace): GeneratedCollection {
    const asked = collectionAt(place);
    const { generator } = this.#chain;
    for (let step = 0; step < OTHER_BODY_SEARCH_HEIGHTS; step++) {
      const height = Math.max(generator.rootHeight, place.block.height - step);
      const other = this.#chain
        .block(height)
        .collections.find(({ id, transactions }) => id !== asked.id && transactions.length > 0);
      if (other !== undefined) return other;
    }
    return {
      ...asked,
      transactions: [],
      transactionIds: Buffer.alloc(0),
      encoded: garbledTransactions(asked),
    };
  }
}

export function collectionAt({ block, index }: CollectionPlace): GeneratedCollection {
  const collection = block.collections[index];
  if (collection === undefined) throw new RangeError(`block ${block.height} has no collection ${index}`);
  return collection;
}

/** `ChunkExecutionData` of a full collection. */
function chunkOf(collection: Uint8Array): Uint8Array {
  return new WireWriter().element(1, collection).finish();
}

function lieInChunks(
  block: GeneratedBlock,
  chunks: readonly Uint8Array[],
  wrapped: (collection: Uint8Array) => Uint8Array,
  lie?: Lie,
): readonly Uint8Array[] {
  const [first, second] = chunks;
  const system = chunks.at(-1);
  switch (lie?.fault) {
    case 'swapped_chunks':
      return first === undefined || second === undefined ? chunks : [second, first, ...chunks.slice(2)];
    case 'missing_chunk':
      return chunks.slice(1);
    case 'extra_chunk':
      return system === undefined
        ? [wrapped(new WireWriter().element(1, Buffer.alloc(0)).finish())]
        : [system, ...chunks];
    case 'wrong_body': {
      const [collection] = block.collections;
      // Without guarantees, only an extra chunk can be wrong.
      const encoded = collection === undefined ? Buffer.alloc(0) : garbledTransactions(collection);
      const chunk = wrapped(encoded);
      return collection === undefined ? [chunk, ...chunks] : [chunk, ...chunks.slice(1)];
    }
    default:
      return chunks;
  }
}

/**
 * The collection with one byte of its last transaction changed, still well-formed; an empty one gets a
 * transaction.
 */
function garbledTransactions({ transactions }: GeneratedCollection): Uint8Array {
  const last = transactions.at(-1) ?? new WireWriter().text(1, 'transaction {}').finish();
  return encodeFullCollection([...transactions.slice(0, -1), garbledBytes(last)]);
}

function splitIds(ids: Buffer): Buffer[] {
  const result: Buffer[] = [];
  for (let at = 0; at < ids.length; at += 32) result.push(ids.subarray(at, at + 32));
  return result;
}

/** Faults that any message can have. */
function finish(encoded: Buffer, lie?: Lie): Buffer {
  if (lie?.fault === 'truncated') return truncated(encoded);
  if (lie?.fault !== 'oversized') return encoded;
  const padding = new WireWriter().element(2047, Buffer.alloc(lie.bytes ?? OVERSIZE_BYTES)).finish();
  return Buffer.concat([encoded, padding]);
}

/**
 * Cuts the largest field in its middle or, where lenient readers would accept a truncated text, after its tag. No
 * decoder accepts the rest.
 */
function truncated(encoded: Buffer): Buffer {
  let cut = -1;
  let largestBytes = -1;
  for (let at = 0; at < encoded.length;) {
    const [tag, lengthAt] = readVarint(encoded, at);
    const [value, bodyAt] = readVarint(encoded, lengthAt);
    const bodyBytes = tag % 8 === 2 ? value : 0;
    if (bodyBytes > largestBytes) {
      largestBytes = bodyBytes;
      cut = bodyBytes < SMALL_FIELD_BYTES ? lengthAt : bodyAt + (bodyBytes >> 1);
    }
    at = bodyAt + bodyBytes;
  }
  return cut < 0 ? Buffer.from([0x0a]) : encoded.subarray(0, cut);
}

/** A varint and the offset after it. */
function readVarint(encoded: Buffer, at: number): readonly [number, number] {
  let value = 0;
  for (let place = at, scale = 1; ; place++, scale *= 128) {
    const byte = encoded[place] ?? 0;
    value += (byte & 0x7f) * scale;
    if (byte < 0x80) return [value, place + 1];
  }
}

/** Fields in ascending order, as nodes send them: seals stand between the guarantees and the signatures of the light form. */
function fullForm(light: Uint8Array, extras: Uint8Array): Buffer {
  const seals = startOf(extras, SIGNATURES_FIELD);
  const signatures = startOf(light, SIGNATURES_FIELD);
  const [head, tail] = [light.subarray(0, signatures), light.subarray(signatures)];
  return Buffer.concat([head, extras.subarray(0, seals), tail, extras.subarray(seals)]);
}

/** Where the first field from `field` on starts. */
function startOf(message: Uint8Array, field: number): number {
  const reader = new WireReader(message);
  let start = 0;
  for (; reader.next() && reader.field < field; start = reader.position) reader.skip();
  return start;
}
