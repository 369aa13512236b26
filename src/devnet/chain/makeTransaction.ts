import { encodeTransaction, type Transaction, type TransactionSignature } from '../../flow/index.js';
import type { OddKind } from './chainProfile.js';
import { COMMENT, FILLER, GAS_LIMIT, scripts } from './cadenceScripts.js';
import type { Prng } from './Prng.js';

const ADDRESS_BYTES = 8;
const SIGNATURE_BYTES = 64;
const EXTENSION_DATA_BYTES = 180;
const UINT32_MAX = 0xffff_ffff;
const UINT64_MAX = 0xffff_ffff_ffff_ffffn;
const ZERO_BLOCK_ID = Buffer.alloc(32);
const NO_BYTES = Buffer.alloc(0);

/** What determines a transaction besides the random words. */
export interface TransactionPlan {
  /** Target size in wire bytes. */
  readonly targetBytes: number;
  readonly referenceBlockId: Uint8Array;
  readonly odd: readonly OddKind[];
}

/** The wire bytes of a transaction: the same plan and words give the same bytes. */
export function makeTransaction(plan: TransactionPlan, words: Prng): Buffer {
  const odd = new Set(plan.odd);
  const unpadded = makeBody(plan, odd, words);
  if (odd.has('bareTransaction')) return encodeTransaction(unpadded);
  const missing = plan.targetBytes - encodedSize(unpadded);
  return encodeTransaction(
    missing > 0 ? { ...unpadded, script: padded(unpadded.script, missing) } : unpadded,
  );
}

function makeBody(plan: TransactionPlan, odd: ReadonlySet<OddKind>, words: Prng): Transaction {
  const proposer = address(words);
  const isMultiSigned = odd.has('multiSign');
  const payer = odd.has('unusualAddress')
    ? Buffer.from([1 + words.below(255)])
    : isMultiSigned
      ? address(words)
      : proposer;
  const authorizers = [proposer];
  if (isMultiSigned) authorizers.push(address(words), address(words));
  if (odd.has('unusualAddress')) authorizers.push(words.bytes(10));
  const keyId = odd.has('largeNumbers') ? UINT32_MAX : words.below(3);

  const bare = odd.has('bareTransaction');
  return {
    script: bare ? NO_BYTES : (scripts[words.below(scripts.length)] ?? NO_BYTES),
    arguments: bare ? [] : argumentsOf(odd.has('newlineArguments') ? '\n' : '', words),
    referenceBlockId: odd.has('zeroReferenceBlock') ? ZERO_BLOCK_ID : plan.referenceBlockId,
    gasLimit: odd.has('largeNumbers') ? UINT64_MAX : GAS_LIMIT,
    proposalKey: {
      address: proposer,
      keyId,
      sequenceNumber: odd.has('largeNumbers') ? UINT64_MAX : BigInt(words.below(100_000)),
    },
    payer,
    authorizers: bare ? [] : authorizers,
    // Nodes sort signatures by signer and key when they accept a transaction.
    payloadSignatures: isMultiSigned
      ? [
          signature(proposer, keyId, words),
          ...authorizers.slice(1, 3).map((signer) => signature(signer, 0, words)),
        ]
      : [],
    envelopeSignatures: envelopeSignatures(payer, keyId, odd, words),
  };
}

function envelopeSignatures(
  payer: Uint8Array,
  keyId: number,
  odd: ReadonlySet<OddKind>,
  words: Prng,
): TransactionSignature[] {
  const signatures = [signature(payer, keyId, words)];
  if (odd.has('extensionData')) {
    const data = words.bytes(EXTENSION_DATA_BYTES);
    data[0] = 1; // the authentication scheme: WebAuthn
    signatures.push({ ...signature(payer, keyId, words), extensionData: data });
  }
  if (odd.has('plainExtensionData')) {
    signatures.push({ ...signature(payer, keyId, words), extensionData: Buffer.alloc(1) });
  }
  // An unknown signer has index -1 and therefore sorts first.
  if (odd.has('unknownSigner')) signatures.unshift(signature(address(words), 0, words));
  return signatures;
}

function argumentsOf(ending: string, words: Prng): Buffer[] {
  const amount = `${words.below(1_000_000)}.${String(words.below(100_000_000)).padStart(8, '0')}`;
  return [
    { type: 'UFix64', value: amount },
    { type: 'Address', value: `0x${address(words).toString('hex')}` },
  ].map((argument) => Buffer.from(JSON.stringify(argument) + ending, 'utf8'));
}

function signature(signer: Uint8Array, keyId: number, words: Prng): TransactionSignature {
  return { address: signer, keyId, signature: words.bytes(SIGNATURE_BYTES), extensionData: NO_BYTES };
}

function address(words: Prng): Buffer {
  return words.bytes(ADDRESS_BYTES);
}

function padded(script: Uint8Array, byteLength: number): Buffer {
  const result = Buffer.allocUnsafe(script.length + byteLength);
  result.set(script);
  result.fill(FILLER, script.length);
  result.set(COMMENT.subarray(0, byteLength), script.length);
  return result;
}

/** The wire size, to within a few bytes: cheaper than encoding twice. */
function encodedSize(transaction: Transaction): number {
  const fieldBytes = 2;
  let size = transaction.script.length + fieldBytes + 1;
  for (const argument of transaction.arguments) size += argument.length + fieldBytes;
  size += transaction.referenceBlockId.length + fieldBytes + 3; // with the gas limit
  size += ADDRESS_BYTES + 3 * fieldBytes + 4; // proposal key
  size += transaction.payer.length + fieldBytes;
  for (const authorizer of transaction.authorizers) size += authorizer.length + fieldBytes;
  for (const signatures of [transaction.payloadSignatures, transaction.envelopeSignatures]) {
    for (const { signature: bytes, extensionData } of signatures) {
      size += bytes.length + extensionData.length + ADDRESS_BYTES + 4 * fieldBytes;
    }
  }
  return size;
}

/** A system transaction: no proposer, payer, reference block or signatures. */
export function makeSystemTransaction(
  script: string,
  authorizer: Uint8Array,
  gasLimit: bigint,
  argument?: string,
): Buffer {
  return encodeTransaction({
    script: Buffer.from(script, 'utf8'),
    arguments: argument === undefined ? [] : [Buffer.from(argument, 'utf8')],
    referenceBlockId: NO_BYTES,
    gasLimit,
    proposalKey: undefined,
    payer: NO_BYTES,
    authorizers: [authorizer],
    payloadSignatures: [],
    envelopeSignatures: [],
  });
}
