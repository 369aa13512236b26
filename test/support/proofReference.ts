/** The hashes of a block once more, from flow-go's JSON and other people's RLP, SHA3 and BLAKE2b: nothing in common with ours. */
import { RLP } from '@ethereumjs/rlp';
import { blake2b } from '@noble/hashes/blake2.js';
import { sha3_256 } from '@noble/hashes/sha3.js';

export type Json = Readonly<Record<string, unknown>>;
type Item = Uint8Array | bigint | number | string | readonly Item[];

/** A header and a payload that fit each other. */
export interface ReferenceBlock {
  readonly header: Json;
  readonly payload: Json;
}

/** With the payload hash and the id that it has in this form; what a result hashes to is none of this. */
export function sealedBlock(
  form: string,
  { header, payload }: ReferenceBlock,
  resultIds: readonly string[],
): ReferenceBlock {
  const payloadForm = form.slice(2);
  const parts = [
    merkleRoot(items(payload['Guarantees']).map((each) => guaranteeId(payloadForm, each))),
    merkleRoot(items(payload['Seals']).map(sealId)),
    merkleRoot(items(payload['Receipts']).map((each) => receiptId(payloadForm, each))),
    merkleRoot(resultIds.map(hex)),
    ...(payloadForm === 'P1' ? [] : [hex(payload['ProtocolStateID'])]),
  ];
  const PayloadHash = sha3(Buffer.concat(parts)).toString('hex');
  const complete = { ...header, PayloadHash };
  return { header: { ...complete, ID: headerId(form.slice(0, 2), complete).toString('hex') }, payload };
}

/** A binary patricia trie, built node by node from texts of bits. */
export function merkleRoot(ids: readonly Uint8Array[]): Buffer {
  if (ids.length === 0) return Buffer.from(blake2b(new Uint8Array(0), { dkLen: 32 }));
  const entries = ids.map((id, index) => {
    const value = Buffer.alloc(8);
    value.writeBigUInt64BE(BigInt(index));
    return { bits: [...id].map((byte) => byte.toString(2).padStart(8, '0')).join(''), leaf: keyed(0, value) };
  });
  return node(entries);
}

function node(entries: readonly { readonly bits: string; readonly leaf: Buffer }[]): Buffer {
  const [first] = entries;
  if (first === undefined) throw new Error('a node without ids');
  let common = 0;
  while (common < first.bits.length && entries.every(({ bits }) => bits[common] === first.bits[common]))
    common++;
  if (common > 0) {
    const path = first.bits.slice(0, common);
    const packed = (path.padEnd(8 * Math.ceil(common / 8), '0').match(/.{8}/g) ?? []).map((byte) =>
      parseInt(byte, 2),
    );
    const below = entries.map(({ bits, leaf }) => ({ bits: bits.slice(common), leaf }));
    return keyed(2, Buffer.concat([Buffer.from([common >> 8, common & 0xff, ...packed]), node(below)]));
  }
  if (first.bits === '') return first.leaf;
  const side = (bit: string): Buffer =>
    node(
      entries
        .filter(({ bits }) => bits.startsWith(bit))
        .map(({ bits, leaf }) => ({ bits: bits.slice(1), leaf })),
    );
  return keyed(1, Buffer.concat([side('0'), side('1')]));
}

function keyed(tag: number, message: Uint8Array): Buffer {
  return Buffer.from(blake2b(message, { dkLen: 32, key: Uint8Array.of(tag) }));
}

function headerId(form: string, header: Json): Buffer {
  const withView = form === 'H5' || form === 'H8';
  return sha3Rlp([
    text(header['ChainID']),
    hex(header['ParentID']),
    Number(header['Height']),
    hex(header['PayloadHash']),
    time(form, header['Timestamp']),
    Number(header['View']),
    ...(withView ? [Number(header['ParentView'])] : []),
    form === 'H1' ? list(header['ParentVoterIDs']).map(hex) : base64(header['ParentVoterIndices']),
    base64(header['ParentVoterSigData']),
    hex(header['ProposerID']),
    ...(withView ? [timeoutId(form, header['LastViewTC'] as Json | undefined)] : []),
  ]);
}

function timeoutId(form: string, timeout: Json | undefined): Buffer {
  if (timeout === undefined) return Buffer.alloc(32);
  const newest = timeout['NewestQC'] as Json;
  const certificate = [
    Number(newest['View']),
    hex(newest['BlockID']),
    base64(newest['SignerIndices']),
    base64(newest['SigData']),
  ];
  return sha3Rlp([
    Number(timeout['View']),
    list(timeout['NewestQCViews']).map(Number),
    form === 'H5' ? sha3Rlp(certificate) : certificate,
    base64(timeout['SignerIndices']),
    base64(timeout['SigData']),
  ]);
}

function guaranteeId(form: string, guarantee: Json): Buffer {
  const collectionId = hex(guarantee['CollectionID']);
  if (form !== 'P8') return collectionId;
  return sha3Rlp([
    collectionId,
    hex(guarantee['ReferenceBlockID']),
    text(guarantee['ChainID'] ?? guarantee['ClusterChainID']),
    base64(guarantee['SignerIndices']),
    base64(guarantee['Signature']),
  ]);
}

function sealId(seal: Json): Buffer {
  const approvals = items(seal['AggregatedApprovalSigs']).map((chunk) => [
    list(chunk['VerifierSignatures']).map(base64),
    list(chunk['SignerIDs']).map(hex),
  ]);
  return sha3Rlp([hex(seal['BlockID']), hex(seal['ResultID']), hex(seal['FinalState']), approvals]);
}

function receiptId(form: string, receipt: Json): Buffer {
  const body = [hex(receipt['ExecutorID']), hex(receipt['ResultID']), list(receipt['Spocks']).map(base64)];
  return sha3Rlp(form === 'P8' ? [body, base64(receipt['ExecutorSignature'])] : body);
}

/** Milliseconds since 1970, or text with nine digits of a second, as milliseconds or nanoseconds. */
function time(form: string, value: unknown): bigint {
  if (typeof value === 'number') return form === 'H8' ? BigInt(value) : BigInt(value) * 1_000_000n;
  const [, seconds = '', nanos = ''] = /^(.*)\.(\d{9})Z$/.exec(text(value)) ?? [];
  const whole = BigInt(Date.parse(`${seconds}Z`)) * 1_000_000n + BigInt(nanos);
  return form === 'H8' ? whole / 1_000_000n : whole;
}

const sha3 = (bytes: Uint8Array): Buffer => Buffer.from(sha3_256(bytes));
const sha3Rlp = (item: Item): Buffer => sha3(RLP.encode(item as Parameters<typeof RLP.encode>[0]));
export const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
export const items = (value: unknown): readonly Json[] => list(value) as readonly Json[];
export const text = (value: unknown): string => (typeof value === 'string' ? value : '');
export const hex = (value: unknown): Buffer => Buffer.from(text(value), 'hex');
export const base64 = (value: unknown): Buffer => Buffer.from(text(value), 'base64');
