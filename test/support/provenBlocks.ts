import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import protobuf from 'protobufjs8';
import type { ReferenceBlock, Json } from './proofReference.js';

const directory = join(import.meta.dirname, '../data/proof');

/** A block that flow-go made of random values, with every intermediate id. */
export interface BlockVector {
  readonly blockID: string;
  readonly payloadHash: string;
  readonly merkle: Readonly<Record<string, string>>;
  readonly guaranteeIDs: readonly string[];
  readonly resultIDs: readonly string[];
  readonly block: ReferenceBlock;
  /** `flow.entities.Block`, base64; of v0.51 alone. */
  readonly blockMessageFull: string;
  readonly blockMessageLight: string;
}

export function blockVector(version: 'v0.42' | 'v0.51'): BlockVector {
  const vector = JSON.parse(readFileSync(join(directory, `block-${version}.json`), 'utf8')) as {
    readonly block: Json;
    readonly payloadHash: string;
  } & Omit<BlockVector, 'block'>;
  // v0.51 has the header's fields beside the payload, without its hash.
  const { Payload, Header, ...fields } = vector.block;
  const header = (Header ?? { ...fields, PayloadHash: vector.payloadHash }) as Json;
  return { ...vector, block: { header, payload: Payload as Json } };
}

/** Of flow-go's own nodes, about the start, an epoch's border and some outages: in full form, and in light where recorded. */
export function recordedBlocks() {
  return gunzipSync(readFileSync(join(directory, 'network-blocks.jsonl.gz')))
    .toString()
    .trim()
    .split('\n')
    .map((line) => {
      const { height, b64, light } = JSON.parse(line) as { height: number; b64: string; light?: string };
      return { height, full: blockOf(b64), light: light === undefined ? undefined : blockOf(light) };
    });
}

/** The first field of a response, which is the block. */
function blockOf(response: string): Buffer {
  const fields = protobuf.Reader.create(Buffer.from(response, 'base64'));
  fields.uint32();
  return Buffer.from(fields.bytes());
}
