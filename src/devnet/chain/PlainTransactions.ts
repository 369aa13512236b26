import { encodeTransaction } from '../../flow/index.js';
import { COMMENT, FILLER, GAS_LIMIT, scripts } from './cadenceScripts.js';
import type { Prng } from './Prng.js';

/** Scripts up to this size are copied from a padded template. */
const PADDED_SCRIPT_BYTES = 8192;
const SCRIPT_TAG = 0x0a;

const reference = Buffer.alloc(32, 0xa1);
const account = Buffer.alloc(8, 0xa2);
const receiver = Buffer.from('a3'.repeat(8), 'utf8');
const amount = Buffer.from('0.00000000', 'utf8');
const signature = Buffer.alloc(64, 0xa4);

/**
 * Ordinary transactions, the bulk of every chain, made by copying an encoded template and overwriting what
 * differs. Measured: half the cost per block of encoding each transaction.
 */
export class PlainTransactions {
  readonly #scripts: readonly Buffer[];
  /** Everything after the script: fields 2 to 9. */
  readonly #tail: Buffer;
  readonly #referenceAt: number;
  readonly #accountsAt: readonly number[];
  readonly #receiverAt: number;
  readonly #amountAt: number;
  readonly #signatureAt: number;

  constructor() {
    this.#scripts = scripts.map((script) => {
      const padded = Buffer.alloc(PADDED_SCRIPT_BYTES, FILLER);
      padded.set(script);
      padded.set(COMMENT, script.length);
      return padded;
    });
    this.#tail = encodeTransaction({
      script: Buffer.alloc(0),
      arguments: [
        Buffer.concat([Buffer.from('{"type":"UFix64","value":"'), amount, Buffer.from('"}')]),
        Buffer.concat([Buffer.from('{"type":"Address","value":"0x'), receiver, Buffer.from('"}')]),
      ],
      referenceBlockId: reference,
      gasLimit: GAS_LIMIT,
      proposalKey: { address: account, keyId: 1, sequenceNumber: 1234n },
      payer: account,
      authorizers: [account],
      payloadSignatures: [],
      envelopeSignatures: [{ address: account, keyId: 1, signature, extensionData: Buffer.alloc(0) }],
    });
    this.#referenceAt = this.#tail.indexOf(reference);
    this.#receiverAt = this.#tail.indexOf(receiver);
    this.#amountAt = this.#tail.indexOf(amount);
    this.#signatureAt = this.#tail.indexOf(signature);
    const accounts: number[] = [];
    for (
      let at = this.#tail.indexOf(account);
      at >= 0;
      at = this.#tail.indexOf(account, at + account.length)
    ) {
      accounts.push(at);
    }
    this.#accountsAt = accounts;
  }

  /** `undefined` for sizes beyond the templates. */
  make(targetBytes: number, referenceBlockId: Uint8Array, words: Prng): Buffer | undefined {
    const tail = this.#tail;
    const which = words.below(scripts.length);
    const shortest = scripts[which]?.length ?? 0;
    const room = targetBytes - tail.length;
    const scriptBytes = Math.max(shortest, room - 1 - (room > 0x7f + 2 ? 2 : 1));
    const source = this.#scripts[which];
    if (source === undefined || scriptBytes > source.length) return undefined;

    const isLong = scriptBytes > 0x7f;
    const tailAt = scriptBytes + (isLong ? 3 : 2);
    const wire = Buffer.allocUnsafe(tailAt + tail.length);
    wire[0] = SCRIPT_TAG;
    wire[1] = isLong ? (scriptBytes & 0x7f) | 0x80 : scriptBytes;
    if (isLong) wire[2] = scriptBytes >> 7;
    source.copy(wire, isLong ? 3 : 2, 0, scriptBytes);
    tail.copy(wire, tailAt);

    wire.set(referenceBlockId, tailAt + this.#referenceAt);
    this.#patchAccounts(wire, tailAt, words);
    writeHex(wire, tailAt + this.#receiverAt, words);
    writeDigits(wire, tailAt + this.#amountAt + 2, words.below(100_000_000));
    words.fill(wire, tailAt + this.#signatureAt, signature.length);
    return wire;
  }

  #patchAccounts(wire: Buffer, tailAt: number, words: Prng): void {
    const high = words.next();
    const low = words.next();
    for (const at of this.#accountsAt) {
      wire.writeUInt32BE(high, tailAt + at);
      wire.writeUInt32BE(low, tailAt + at + 4);
    }
  }
}

/** 16 hex digits. */
function writeHex(wire: Buffer, at: number, words: Prng): void {
  for (let digit = 0; digit < 16; digit += 8) {
    let value = words.next();
    for (let place = 0; place < 8; place++) {
      const nibble = value & 0xf;
      wire[at + digit + place] = nibble < 10 ? 0x30 + nibble : 0x57 + nibble;
      value >>>= 4;
    }
  }
}

/** 8 decimal digits. */
function writeDigits(wire: Buffer, at: number, value: number): void {
  let rest = value;
  for (let place = 7; place >= 0; place--) {
    wire[at + place] = 0x30 + (rest % 10);
    rest = Math.floor(rest / 10);
  }
}
