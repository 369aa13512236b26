import { hash } from 'node:crypto';
import { byteAt } from '../wire/bytes.js';
import type { Identifier } from '../types.js';
import { IDENTIFIER_BYTES, sha3Identifier } from './identifiers.js';
import { RlpWriter } from './RlpWriter.js';
import { SIGNATURE_STRIDE, TransactionScan } from './TransactionScan.js';

const ADDRESS_BYTES = 8;
/** The RLP header of a 32-byte id, as a character. */
export const ID_ITEM_HEADER = String.fromCharCode(0x80 + IDENTIFIER_BYTES);
/** Above this many distinct signers a map is used, so that an attack cannot cost signers × signatures. */
const LINEAR_SIGNERS_MAX = 32;

const RLP_HEADER_BYTES_MAX = 5;
/** All fields of fixed size and the headers of the lists, generously. */
const FIXED_BYTES_MAX = 256;
/** A signature's list header, signer index and key id, per noted number: generously too. */
const SIGNATURE_BYTES_MAX = 4;

/** Hash once this much RLP is written: little enough to be still in the processor's nearest cache. */
const BATCH_BYTES = 16 * 1024;

/** Initial working space of a hasher, besides the collection itself: the RLP form of an ordinary transaction. */
const WORKING_BYTES = 4096;
/** What is kept for the next collection: enough for all but unusually large ones. */
const KEPT_BYTES = 64 * 1024;

/**
 * Computes transaction ids straight from canonical wire bytes. One instance serves one call of a public function, so
 * that its transactions share one buffer and nothing outlives the call.
 *
 * The id is SHA3-256 of RLP of [payload, payload signatures, envelope signatures], where payload = [script,
 * [arguments], reference block, gas limit, proposer, key id, sequence number, payer, [authorizers]] and signature =
 * [signer index, key id, signature], with the extension data as fourth item when there is any.
 */
export class TransactionHasher {
  /** The source of the hashing is at the front of its buffer. */
  readonly rlp: RlpWriter;
  /** RLP items of the ids that the last `run` wrote, one character per byte: the input of a collection's id. */
  #idItems = '';
  readonly #scan = new TransactionScan();
  /** End of the RLP form of each transaction that is not hashed yet. */
  readonly #rlpEnds: number[] = [];

  /** Distinct signers in order, two 32-bit halves each. */
  readonly #signers: number[] = [];
  #signerNumbers = 0;
  #signerMap: Map<bigint, number> | undefined;
  /** The last address read, as two signed halves. */
  #addressHigh = 0;
  #addressLow = 0;

  constructor(capacityBytes: number) {
    this.rlp = new RlpWriter(capacityBytes);
  }

  /**
   * Writes the ids of the transactions at `ranges` of the source (offset and length of each) to `ids`, one after the
   * other. False when one of the transactions is not canonical; `ids` is then meaningless.
   */
  run(ranges: Uint32Array, ids: Buffer): boolean {
    const { rlp } = this;
    const rlpEnds = this.#rlpEnds;
    this.#idItems = '';
    let hashed = 0;
    let pending = 0;
    // Many are written before they are hashed: each loop runs faster uninterrupted.
    for (let index = 0; index < ranges.length; index += 2) {
      const start = ranges[index] as number;
      const length = ranges[index + 1] as number;
      if (!this.#scan.run(rlp.buffer, start, start + length)) return false;
      this.#write(length);
      rlpEnds[pending++] = rlp.writtenBytes;
      if (rlp.writtenBytes >= BATCH_BYTES) {
        this.#hashPending(pending, ids, hashed);
        hashed += pending;
        pending = 0;
      }
    }
    this.#hashPending(pending, ids, hashed);
    return true;
  }

  /** The id of the collection of these transactions: see `collectionIdOf`. Overwrites what the writer held. */
  collectionId(): Identifier {
    const { rlp } = this;
    rlp.clear();
    rlp.reserve(this.#idItems.length + 2 * RLP_HEADER_BYTES_MAX);
    const end = rlp.position;
    rlp.characters(this.#idItems);
    rlp.list(end);
    rlp.list(end);
    return sha3Identifier(rlp.written(0, rlp.writtenBytes));
  }

  #hashPending(count: number, ids: Buffer, first: number): void {
    let from = 0;
    // A latin1 string is the fastest output of the one-shot hash for 32 bytes, with one write for many of them.
    let text = '';
    let items = this.#idItems;
    for (let index = 0; index < count; index++) {
      const to = at(this.#rlpEnds, index);
      const id = hash('sha3-256', this.rlp.written(from, to), 'binary');
      text += id;
      items += ID_ITEM_HEADER + id;
      from = to;
    }
    this.#idItems = items;
    ids.write(text, first * IDENTIFIER_BYTES, 'latin1');
    this.rlp.clear();
  }

  #write(wireBytes: number): void {
    const { rlp } = this;
    const scan = this.#scan;
    // An upper bound of the RLP form, in which a byte string takes no more than on the wire.
    const addedBytes = scan.authorizerNumbers * ADDRESS_BYTES + scan.signatureNumbers * SIGNATURE_BYTES_MAX;
    rlp.reserve(wireBytes + FIXED_BYTES_MAX + addedBytes);
    if (scan.signatureNumbers > 0) this.#collectSigners();
    const end = rlp.position;
    this.#writeSignatures(scan.payloadSignatureNumbers, scan.signatureNumbers);
    this.#writeSignatures(0, scan.payloadSignatureNumbers);
    this.#writePayload();
    rlp.list(end);
  }

  #writePayload(): void {
    const { rlp } = this;
    const scan = this.#scan;
    const end = rlp.position;
    for (let index = scan.authorizerNumbers - 2; index >= 0; index -= 2) {
      rlp.rightAligned(at(scan.authorizers, index), at(scan.authorizers, index + 1), ADDRESS_BYTES);
    }
    rlp.list(end);
    rlp.rightAligned(scan.payerStart, scan.payerLength, ADDRESS_BYTES);
    rlp.integer(scan.sequenceLow, scan.sequenceHigh);
    rlp.integer(scan.proposalKeyId, 0);
    rlp.rightAligned(scan.proposerStart, scan.proposerLength, ADDRESS_BYTES);
    rlp.integer(scan.gasLow, scan.gasHigh);
    rlp.leftAligned(scan.referenceStart, scan.referenceLength, IDENTIFIER_BYTES);
    const argumentsEnd = rlp.position;
    for (let index = scan.argumentNumbers - 2; index >= 0; index -= 2) {
      rlp.bytes(at(scan.arguments, index), at(scan.arguments, index + 1));
    }
    rlp.list(argumentsEnd);
    rlp.bytes(scan.scriptStart, scan.scriptLength);
    rlp.list(end);
  }

  #writeSignatures(from: number, to: number): void {
    const { rlp } = this;
    const { signatures } = this.#scan;
    const end = rlp.position;
    for (let index = to - SIGNATURE_STRIDE; index >= from; index -= SIGNATURE_STRIDE) {
      const itemEnd = rlp.position;
      const extensionStart = at(signatures, index + 5);
      const extensionLength = at(signatures, index + 6);
      // A single zero byte names the plain signature scheme, which is hashed as if there were no extension data.
      if (extensionLength > 1 || (extensionLength === 1 && byteAt(rlp.buffer, extensionStart) !== 0)) {
        rlp.bytes(extensionStart, extensionLength);
      }
      rlp.bytes(at(signatures, index + 3), at(signatures, index + 4));
      rlp.integer(at(signatures, index + 2), 0);
      this.#readAddress(at(signatures, index), at(signatures, index + 1));
      const signer = this.#findSigner();
      // An unknown signer has index -1, which Flow writes as an unsigned 64-bit number.
      rlp.integer(signer, signer < 0 ? -1 : 0);
      rlp.list(itemEnd);
    }
    rlp.list(end);
  }

  /** Proposer and payer unless zero, then the authorizers; each address once. */
  #collectSigners(): void {
    const scan = this.#scan;
    this.#signerNumbers = 0;
    this.#signerMap = undefined;
    this.#readAddress(scan.proposerStart, scan.proposerLength);
    if ((this.#addressHigh | this.#addressLow) !== 0) this.#addSigner();
    this.#readAddress(scan.payerStart, scan.payerLength);
    if ((this.#addressHigh | this.#addressLow) !== 0) this.#addSigner();
    for (let index = 0; index < scan.authorizerNumbers; index += 2) {
      this.#readAddress(at(scan.authorizers, index), at(scan.authorizers, index + 1));
      this.#addSigner();
    }
  }

  #addSigner(): void {
    if (this.#findSigner() >= 0) return;
    this.#signers[this.#signerNumbers++] = this.#addressHigh;
    this.#signers[this.#signerNumbers++] = this.#addressLow;
    const count = this.#signerNumbers >> 1;
    if (this.#signerMap !== undefined) {
      this.#signerMap.set(addressKey(this.#addressHigh, this.#addressLow), count - 1);
    } else if (count > LINEAR_SIGNERS_MAX) {
      this.#signerMap = new Map();
      for (let index = 0; index < count; index++) {
        this.#signerMap.set(
          addressKey(at(this.#signers, 2 * index), at(this.#signers, 2 * index + 1)),
          index,
        );
      }
    }
  }

  /** Index among the signers of the last address read, or -1. */
  #findSigner(): number {
    const signers = this.#signers;
    const addressHigh = this.#addressHigh;
    const addressLow = this.#addressLow;
    if (this.#signerMap !== undefined) return this.#signerMap.get(addressKey(addressHigh, addressLow)) ?? -1;
    for (let index = 0; index < this.#signerNumbers; index += 2) {
      if (signers[index] === addressHigh && signers[index + 1] === addressLow) return index >> 1;
    }
    return -1;
  }

  /** Shorter addresses are padded with leading zeros; of longer ones the last eight bytes count. */
  #readAddress(start: number, length: number): void {
    const { buffer } = this.rlp;
    if (length === ADDRESS_BYTES) {
      this.#addressHigh = int32At(buffer, start);
      this.#addressLow = int32At(buffer, start + 4);
      return;
    }
    const end = start + length;
    let high = 0;
    let low = 0;
    for (let from = length > ADDRESS_BYTES ? end - ADDRESS_BYTES : start; from < end; from++) {
      high = (high << 8) | (low >>> 24);
      low = (low << 8) | byteAt(buffer, from);
    }
    this.#addressHigh = high;
    this.#addressLow = low;
  }
}

/**
 * Working memory for verification. Reused from one collection to the next, it is still in the processor's caches;
 * nothing of a collection can be read from it afterwards.
 */
export class VerificationMemory {
  readonly #hasher = new TransactionHasher(KEPT_BYTES);

  /** A hasher with room for a collection of this size; an unusually large one gets its own, which is not kept. */
  hasherFor(sizeBytes: number): TransactionHasher {
    const neededBytes = 2 * sizeBytes + WORKING_BYTES;
    return neededBytes <= KEPT_BYTES ? this.#hasher : new TransactionHasher(neededBytes);
  }
}

function addressKey(high: number, low: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low >>> 0);
}

/** An element whose index is known to be in range. */
function at(numbers: readonly number[], index: number): number {
  return numbers[index] as number;
}

function int32At(bytes: Uint8Array, index: number): number {
  return (
    (byteAt(bytes, index) << 24) |
    (byteAt(bytes, index + 1) << 16) |
    (byteAt(bytes, index + 2) << 8) |
    byteAt(bytes, index + 3)
  );
}
