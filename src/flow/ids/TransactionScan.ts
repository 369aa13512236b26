import { byteAt } from '../wire/bytes.js';
import { WireReader } from '../wire/WireReader.js';

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

/** Not a tag: read at the end of a message. */
const NO_TAG = -1;

/** Numbers noted per signature, in this order. */
export const SIGNATURE_STRIDE = 7;

/**
 * Finds the fields of a canonically encoded transaction, and decides whether it is one: only known fields with their
 * own wire type, in ascending order, singular ones once and without their default value, every number in the fewest
 * bytes, nested messages included. That is a grammar without choices, so the scan simply follows it; any other bytes are
 * left to the decoder. Expected errors: `WireError`, where the decoder would find the same.
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

  readonly #reader = new WireReader(Buffer.alloc(0));

  /** False when the bytes at `start … end` are not canonical; the noted positions are then meaningless. */
  run(bytes: Buffer, start: number, end: number): boolean {
    const reader = this.#reader;
    reader.load(bytes, start, end);
    this.scriptLength = 0;
    this.referenceLength = 0;
    this.gasLow = 0;
    this.gasHigh = 0;
    this.proposerLength = 0;
    this.proposalKeyId = 0;
    this.sequenceLow = 0;
    this.sequenceHigh = 0;
    this.payerLength = 0;
    this.argumentNumbers = 0;
    this.authorizerNumbers = 0;
    this.signatureNumbers = 0;

    let tag = this.#tag();
    if (tag === SCRIPT) {
      this.scriptStart = this.#presentBytes();
      this.scriptLength = reader.low;
      tag = this.#tag();
    }
    for (; tag === ARGUMENT; tag = this.#tag()) {
      this.arguments[this.argumentNumbers++] = this.#bytes();
      this.arguments[this.argumentNumbers++] = reader.low;
    }
    if (tag === REFERENCE_BLOCK) {
      this.referenceStart = this.#presentBytes();
      this.referenceLength = reader.low;
      tag = this.#tag();
    }
    if (tag === GAS_LIMIT) {
      this.#presentNumber();
      this.gasLow = reader.low;
      this.gasHigh = reader.high;
      tag = this.#tag();
    }
    if (tag === PROPOSAL_KEY) {
      if (!this.#proposalKey()) return false;
      tag = this.#tag();
    }
    if (tag === PAYER) {
      this.payerStart = this.#presentBytes();
      this.payerLength = reader.low;
      tag = this.#tag();
    }
    for (; tag === AUTHORIZER; tag = this.#tag()) {
      this.authorizers[this.authorizerNumbers++] = this.#bytes();
      this.authorizers[this.authorizerNumbers++] = reader.low;
    }
    for (; tag === PAYLOAD_SIGNATURE; tag = this.#tag()) if (!this.#signature()) return false;
    this.payloadSignatureNumbers = this.signatureNumbers;
    for (; tag === ENVELOPE_SIGNATURE; tag = this.#tag()) if (!this.#signature()) return false;
    return tag === NO_TAG && reader.canonical;
  }

  #proposalKey(): boolean {
    const reader = this.#reader;
    const outerEnd = reader.enter();
    let tag = this.#tag();
    if (tag === ADDRESS) {
      this.proposerStart = this.#presentBytes();
      this.proposerLength = reader.low;
      tag = this.#tag();
    }
    if (tag === KEY_ID) {
      this.#presentNumber();
      this.proposalKeyId = reader.low;
      if (reader.high !== 0) return false;
      tag = this.#tag();
    }
    if (tag === SEQUENCE_NUMBER) {
      this.#presentNumber();
      this.sequenceLow = reader.low;
      this.sequenceHigh = reader.high;
      tag = this.#tag();
    }
    reader.end = outerEnd;
    return tag === NO_TAG;
  }

  #signature(): boolean {
    const { signatures } = this;
    const reader = this.#reader;
    const outerEnd = reader.enter();
    const at = this.signatureNumbers;
    for (let index = at; index < at + SIGNATURE_STRIDE; index++) signatures[index] = 0;
    this.signatureNumbers = at + SIGNATURE_STRIDE;
    let tag = this.#tag();
    if (tag === ADDRESS) {
      signatures[at] = this.#presentBytes();
      signatures[at + 1] = reader.low;
      tag = this.#tag();
    }
    if (tag === KEY_ID) {
      this.#presentNumber();
      signatures[at + 2] = reader.low;
      if (reader.high !== 0) return false;
      tag = this.#tag();
    }
    if (tag === SIGNATURE) {
      signatures[at + 3] = this.#presentBytes();
      signatures[at + 4] = reader.low;
      tag = this.#tag();
    }
    if (tag === EXTENSION_DATA) {
      signatures[at + 5] = this.#presentBytes();
      signatures[at + 6] = reader.low;
      tag = this.#tag();
    }
    reader.end = outerEnd;
    return tag === NO_TAG;
  }

  #tag(): number {
    const reader = this.#reader;
    return reader.position < reader.end ? byteAt(reader.bytes, reader.position++) : NO_TAG;
  }

  /** Skips a byte string, whose length is then in `low` of the reader; returns where it begins. */
  #bytes(): number {
    const reader = this.#reader;
    const length = reader.length();
    const start = reader.position;
    reader.position = start + length;
    return start;
  }

  /** The same for one that would be omitted if it were empty. */
  #presentBytes(): number {
    const start = this.#bytes();
    if (this.#reader.low === 0) this.#reader.canonical = false;
    return start;
  }

  /** Reads a number that would be omitted if it were zero. */
  #presentNumber(): void {
    const reader = this.#reader;
    reader.varint();
    if ((reader.low | reader.high) === 0) reader.canonical = false;
  }
}
