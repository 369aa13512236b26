import { parseIdentifier, RequestFields, toIdentifier, WireError } from '../../flow/index.js';
import type { BlockDigest, BlockHeader, NodeVersionInfo, ReceivedEvidence } from '../types.js';

/** Bounds the names of chains and versions, which are logged: real ones have a few dozen characters. */
const MAX_TEXT_LENGTH = 256;

function textOf(fields: RequestFields, field: number): string {
  const text = fields.text(field);
  if (text.length > MAX_TEXT_LENGTH) throw new WireError('a name is too long');
  return text;
}

/** The message in field 1. */
function partOf(message: Buffer, name: string): RequestFields {
  const part = new RequestFields(message).message(1);
  if (part === undefined) throw new WireError(`${name} is missing`);
  return part;
}

/** Expected errors of all of these: `WireError`. */
export function decodeNetworkParameters(message: Buffer): { readonly chainId: string } {
  return { chainId: textOf(new RequestFields(message), 1) };
}

export function decodeNodeVersionInfo(message: Buffer): NodeVersionInfo {
  const info = partOf(message, 'info');
  return {
    semver: textOf(info, 1),
    sporkId: parseIdentifier(info.bytes(3).toString('hex')) ?? '',
    sporkRootHeight: info.safeInteger(5),
    nodeRootHeight: info.safeInteger(6),
  };
}

export function decodeBlockHeader(message: Buffer): BlockHeader {
  const block = partOf(message, 'block');
  return {
    id: toIdentifier(block.bytes(1)),
    parentId: toIdentifier(block.bytes(2)),
    height: block.safeInteger(3),
    chainId: textOf(block, 11),
    timestampMs: timestampMs(block.message(4)),
  };
}

export function decodeProtocolStateSnapshot(message: Buffer): Uint8Array {
  const snapshot = new RequestFields(message).bytes(1);
  if (snapshot.length === 0) throw new WireError('the snapshot is empty');
  return snapshot;
}

export function decodeCommitteeEvidence(message: Buffer): ReceivedEvidence {
  const fields = new RequestFields(message);
  return {
    height: fields.safeInteger(1),
    id: toIdentifier(fields.bytes(2)),
    protocolState: fields.bytes(3),
    epochState: fields.bytes(4),
    events: fields.all(5),
  };
}

/** Whole seconds are enough. An invalid value counts as none: nothing stored depends on it. */
function timestampMs(timestamp: RequestFields | undefined): number | undefined {
  if (timestamp === undefined) return undefined;
  const ms = Number(BigInt.asIntN(64, timestamp.number(1))) * 1_000;
  return Number.isSafeInteger(ms) ? ms : undefined;
}

export function decodeBlockDigest(message: Buffer): BlockDigest {
  const digest = new RequestFields(message);
  return { id: toIdentifier(digest.bytes(1)), height: digest.safeInteger(2) };
}
