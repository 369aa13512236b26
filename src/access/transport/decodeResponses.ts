import { parseIdentifier, toIdentifier, WireError } from '../../flow/index.js';
import type { Identifier } from '../../flow/index.js';
import type { MethodStub } from './methodStubs.js';
import type { BlockDigest, BlockHeader, NodeVersionInfo, ReceivedEvidence } from '../types.js';

// The protobuf library decodes rare answers; src/flow decodes the hot ones.

/** Bounds the names of chains and versions, which are logged: real ones have a few dozen characters. */
const MAX_TEXT_LENGTH = 256;

/**
 * Fields as the protobuf library returns them: bytes as Buffer, 64-bit integers as decimal text, defaults filled in.
 */
type Fields = Readonly<Record<string, unknown>>;

/** Expected errors: `WireError`. */
function decodeFields(message: Buffer, stub: MethodStub): Fields {
  try {
    return stub.decode(message) as Fields;
  } catch (error) {
    throw new WireError(`not a message of ${stub.path}`, { cause: error });
  }
}

function height(text: unknown): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 0) throw new WireError('a height beyond the safe integers');
  return value;
}

function identifier(bytes: unknown): Identifier {
  if (!Buffer.isBuffer(bytes)) throw new WireError('an identifier is missing');
  return toIdentifier(bytes);
}

function part(fields: Fields, name: string): Fields {
  const value = fields[name];
  if (typeof value !== 'object' || value === null) throw new WireError(`${name} is missing`);
  return value as Fields;
}

function text(value: unknown): string {
  if (typeof value !== 'string') return '';
  if (value.length > MAX_TEXT_LENGTH) throw new WireError('a name is too long');
  return value;
}

/** Expected errors of all of these: `WireError`. */
export function decodeNetworkParameters(message: Buffer, stub: MethodStub): { readonly chainId: string } {
  return { chainId: text(decodeFields(message, stub)['chain_id']) };
}

export function decodeNodeVersionInfo(message: Buffer, stub: MethodStub): NodeVersionInfo {
  const info = part(decodeFields(message, stub), 'info');
  const sporkId = info['spork_id'];
  return {
    semver: text(info['semver']),
    sporkId: Buffer.isBuffer(sporkId) ? (parseIdentifier(sporkId.toString('hex')) ?? '') : '',
    sporkRootHeight: height(info['spork_root_block_height']),
    nodeRootHeight: height(info['node_root_block_height']),
  };
}

export function decodeBlockHeader(message: Buffer, stub: MethodStub): BlockHeader {
  const block = part(decodeFields(message, stub), 'block');
  return {
    id: identifier(block['id']),
    parentId: identifier(block['parent_id']),
    height: height(block['height']),
    chainId: text(block['chain_id']),
    timestampMs: timestampMs(block['timestamp']),
  };
}

export function decodeProtocolStateSnapshot(message: Buffer, stub: MethodStub): Uint8Array {
  const snapshot = decodeFields(message, stub)['serializedSnapshot'];
  if (!Buffer.isBuffer(snapshot) || snapshot.length === 0) throw new WireError('the snapshot is empty');
  return snapshot;
}

export function decodeCommitteeEvidence(message: Buffer, stub: MethodStub): ReceivedEvidence {
  const fields = decodeFields(message, stub);
  const { protocol_state: protocolState, epoch_state: epochState, events } = fields;
  const all: unknown[] = Array.isArray(events) ? events : [];
  if (!Buffer.isBuffer(protocolState) || !Buffer.isBuffer(epochState))
    throw new WireError('the evidence of a committee is missing');
  return {
    height: height(fields['height']),
    id: identifier(fields['block_id']),
    protocolState,
    epochState,
    events: all.filter((event) => Buffer.isBuffer(event)),
  };
}

/** Whole seconds are enough. An invalid value counts as none: nothing stored depends on it. */
function timestampMs(timestamp: unknown): number | undefined {
  if (typeof timestamp !== 'object' || timestamp === null) return undefined;
  const ms = Number((timestamp as Fields)['seconds']) * 1_000;
  return Number.isSafeInteger(ms) ? ms : undefined;
}

export function decodeBlockDigest(message: Buffer, stub: MethodStub): BlockDigest {
  const digest = decodeFields(message, stub);
  return { id: identifier(digest['block_id']), height: height(digest['block_height']) };
}
