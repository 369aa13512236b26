import { byteAt } from '../wire/bytes.js';

/** Tags of `flow.entities.Transaction`; each fits in one byte. */
const SCRIPT = 0x0a;
const ARGUMENT = 0x12;
const REFERENCE_BLOCK = 0x1a;
const GAS_LIMIT = 0x20;
const PROPOSAL_KEY = 0x2a;
const PAYER = 0x32;
const AUTHORIZER = 0x3a;
const PAYLOAD_SIGNATURE = 0x42;
const ENVELOPE_SIGNATURE = 0x4a;
/** Tags of `ProposalKey`, and of `Signature` where they are the same. */
const ADDRESS = 0x0a;
const KEY_ID = 0x10;
const SEQUENCE_NUMBER = 0x18;
const SIGNATURE = 0x1a;
const EXTENSION_DATA = 0x22;

/** No byte of a message: the tag read at its end. */
const NO_TAG = -1;
/** Lengths stay below 2^28, far above the size of any transaction. */
const LENGTH_BYTES_MAX = 4;
const VARINT_BYTES_MAX = 10;

/** Numbers noted per signature, in this order. */
export const SIGNATURE_STRIDE = 7;

/**
 * Finds the fields of a canonically encoded transaction, and decides whether it is one: only known fields with their
 * own wire type, in ascending order, singular ones once and without their default value, every number in the fewest
 * bytes, nested messages included. That is a grammar without choices, so it is simply followed; any other bytes,
 * truncated ones included, are for the decoder to judge.
 */
export class TransactionScan {
  scriptStart = 0;
  scriptLength = 0;
  referenceStart = 0;
  referenceLength = 0;
  gasLow = 0;
  gasHigh = 0;
  proposerStart = 0;
  proposerLength = 0;
  proposalKeyId = 0;
  sequenceLow = 0;
  sequenceHigh = 0;
  payerStart = 0;
  payerLength = 0;
  /** Start and length of each, one after the other; only the first `…Numbers` are of this transaction. */
  readonly arguments: number[] = [];
  argumentNumbers = 0;
  readonly authorizers: number[] = [];
  authorizerNumbers = 0;
  /**
   * Seven numbers for each: address start and length, key id, signature start and length, extension data start and
   * length. The payload's come first.
   */
  readonly signatures: number[] = [];
  payloadSignatureNumbers = 0;
  signatureNumbers = 0;

  #bytes: Buffer = Buffer.alloc(0);
  #position = 0;
  /** The last varint read. */
  #low = 0;
  #high = 0;

  /** False when the bytes at `start … end` are not canonical; the noted positions are then meaningless. */
  run(bytes: Buffer, start: number, end: number): boolean {
    this.#bytes = bytes;
    this.#position = start;
    this.argumentNumbers = 0;
    this.authorizerNumbers = 0;
    this.signatureNumbers = 0;
    let tag = this.#tag(end);

    this.scriptLength = 0;
    if (tag === SCRIPT) {
      this.scriptLength = this.#length(end);
      if (this.scriptLength <= 0) return false;
      this.scriptStart = this.#skip(this.scriptLength);
      tag = this.#tag(end);
    }
    while (tag === ARGUMENT) {
      const length = this.#length(end);
      if (length < 0) return false;
      this.arguments[this.argumentNumbers++] = this.#skip(length);
      this.arguments[this.argumentNumbers++] = length;
      tag = this.#tag(end);
    }
    this.referenceLength = 0;
    if (tag === REFERENCE_BLOCK) {
      this.referenceLength = this.#length(end);
      if (this.referenceLength <= 0) return false;
      this.referenceStart = this.#skip(this.referenceLength);
      tag = this.#tag(end);
    }
    this.gasLow = 0;
    this.gasHigh = 0;
    if (tag === GAS_LIMIT) {
      if (!this.#number(end)) return false;
      this.gasLow = this.#low;
      this.gasHigh = this.#high;
      tag = this.#tag(end);
    }
    this.proposerLength = 0;
    this.proposalKeyId = 0;
    this.sequenceLow = 0;
    this.sequenceHigh = 0;
    if (tag === PROPOSAL_KEY) {
      const length = this.#length(end);
      if (length < 0 || !this.#proposalKey(this.#position + length)) return false;
      tag = this.#tag(end);
    }
    this.payerLength = 0;
    if (tag === PAYER) {
      this.payerLength = this.#length(end);
      if (this.payerLength <= 0) return false;
      this.payerStart = this.#skip(this.payerLength);
      tag = this.#tag(end);
    }
    while (tag === AUTHORIZER) {
      const length = this.#length(end);
      if (length < 0) return false;
      this.authorizers[this.authorizerNumbers++] = this.#skip(length);
      this.authorizers[this.authorizerNumbers++] = length;
      tag = this.#tag(end);
    }
    while (tag === PAYLOAD_SIGNATURE) {
      const length = this.#length(end);
      if (length < 0 || !this.#signature(this.#position + length)) return false;
      tag = this.#tag(end);
    }
    this.payloadSignatureNumbers = this.signatureNumbers;
    while (tag === ENVELOPE_SIGNATURE) {
      const length = this.#length(end);
      if (length < 0 || !this.#signature(this.#position + length)) return false;
      tag = this.#tag(end);
    }
    return tag === NO_TAG;
  }

  #proposalKey(end: number): boolean {
    let tag = this.#tag(end);
    if (tag === ADDRESS) {
      this.proposerLength = this.#length(end);
      if (this.proposerLength <= 0) return false;
      this.proposerStart = this.#skip(this.proposerLength);
      tag = this.#tag(end);
    }
    if (tag === KEY_ID) {
      if (!this.#number(end) || this.#high !== 0) return false;
      this.proposalKeyId = this.#low;
      tag = this.#tag(end);
    }
    if (tag === SEQUENCE_NUMBER) {
      if (!this.#number(end)) return false;
      this.sequenceLow = this.#low;
      this.sequenceHigh = this.#high;
      tag = this.#tag(end);
    }
    return tag === NO_TAG;
  }

  #signature(end: number): boolean {
    const { signatures } = this;
    const at = this.signatureNumbers;
    for (let index = at; index < at + SIGNATURE_STRIDE; index++) signatures[index] = 0;
    this.signatureNumbers = at + SIGNATURE_STRIDE;
    let tag = this.#tag(end);
    if (tag === ADDRESS) {
      const length = this.#length(end);
      if (length <= 0) return false;
      signatures[at] = this.#skip(length);
      signatures[at + 1] = length;
      tag = this.#tag(end);
    }
    if (tag === KEY_ID) {
      if (!this.#number(end) || this.#high !== 0) return false;
      signatures[at + 2] = this.#low;
      tag = this.#tag(end);
    }
    if (tag === SIGNATURE) {
      const length = this.#length(end);
      if (length <= 0) return false;
      signatures[at + 3] = this.#skip(length);
      signatures[at + 4] = length;
      tag = this.#tag(end);
    }
    if (tag === EXTENSION_DATA) {
      const length = this.#length(end);
      if (length <= 0) return false;
      signatures[at + 5] = this.#skip(length);
      signatures[at + 6] = length;
      tag = this.#tag(end);
    }
    return tag === NO_TAG;
  }

  #tag(end: number): number {
    return this.#position < end ? byteAt(this.#bytes, this.#position++) : NO_TAG;
  }

  /** Skips `length` bytes, which are known to be there; returns where they begin. */
  #skip(length: number): number {
    const start = this.#position;
    this.#position = start + length;
    return start;
  }

  /** A minimally encoded length that does not reach beyond `end`; -1 otherwise. */
  #length(end: number): number {
    const bytes = this.#bytes;
    let length = 0;
    for (let index = 0; index < LENGTH_BYTES_MAX && this.#position < end; index++) {
      const byte = byteAt(bytes, this.#position++);
      length |= (byte & 0x7f) << (7 * index);
      if (byte < 0x80) {
        return (byte === 0 && index > 0) || length > end - this.#position ? -1 : length;
      }
    }
    return -1;
  }

  /** Reads a minimally encoded non-zero varint into `low` and `high`; false otherwise. */
  #number(end: number): boolean {
    const bytes = this.#bytes;
    let low = 0;
    let high = 0;
    for (let index = 0; index < VARINT_BYTES_MAX && this.#position < end; index++) {
      const byte = byteAt(bytes, this.#position++);
      const bits = byte & 0x7f;
      if (index < 4) {
        low |= bits << (7 * index);
      } else if (index === 4) {
        low |= bits << 28;
        high = bits >>> 4;
      } else {
        high |= bits << (7 * index - 32);
      }
      if (byte < 0x80) {
        this.#low = low;
        this.#high = high;
        return byte !== 0 && (index < VARINT_BYTES_MAX - 1 || byte === 1);
      }
    }
    return false;
  }
}
