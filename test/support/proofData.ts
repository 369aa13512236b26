import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { decodeExecutionResult, toIdentifier } from '../../src/flow/index.js';
import { loadMessages } from './flowWire.js';

// What a small network of the reference implementation served, and what that implementation computes of random values.

const messages = loadMessages();
const file = (name: string): Buffer => readFileSync(new URL(`../data/proof/${name}`, import.meta.url));
export const knownAnswers = (name: string): unknown => JSON.parse(file(name).toString());

/** A snapshot of the recorded network, of which only the protocol states are left. */
export function recordedSnapshot(): {
  SealingSegment: { ProtocolStateEntries: Record<string, ProtocolStateEntry> };
} {
  return JSON.parse(gunzipSync(file('protocol-states.json.gz')).toString()) as ReturnType<
    typeof recordedSnapshot
  >;
}

export interface ProtocolStateEntry {
  KVStore: { Version: number; Data: string };
  EpochEntry: Record<string, unknown> & {
    CurrentEpochSetup: {
      FinalView: number;
      Participants: { StakingPubKey: string; InitialWeight: number }[];
    };
  };
}

/** Three runs of blocks of the recorded network, with the events of its first change of epoch, at height 391. */
export function recordedBlocks() {
  const lines = gunzipSync(file('epoch-blocks.jsonl.gz')).toString().trim().split('\n');
  const response = messages('flow.access.BlockResponse');
  return lines.map((line) => {
    const { b64 } = JSON.parse(line) as { b64: string };
    return recordedBlock(
      (response.decode(Buffer.from(b64, 'base64')) as unknown as { block: WireBlock }).block,
    );
  });
}

/** `flow.entities.Block` as protobufjs decodes it. */
export function recordedBlock(block: WireBlock) {
  const result = messages('flow.entities.ExecutionResult');
  const header = block.block_header;
  return {
    height: Number(header.height),
    id: toIdentifier(block.id),
    parentId: toIdentifier(header.parent_id),
    view: Number(header.view),
    parentView: Number(header.parent_view),
    parentVoterIndices: header.parent_voter_indices,
    parentVoterSigData: header.parent_voter_sig_data,
    protocolStateId: toIdentifier(block.protocol_state_id),
    seals: block.block_seals.map((seal) => ({
      blockId: toIdentifier(seal.block_id),
      resultId: toIdentifier(seal.result_id),
    })),
    results: block.execution_result_list.map((each) => decodeExecutionResult(result.encode(each).finish())),
    resultIds: block.execution_receipt_metaList.map((receipt) => toIdentifier(receipt.result_id)),
  };
}

export interface WireBlock {
  readonly id: Uint8Array;
  readonly protocol_state_id: Uint8Array;
  readonly block_header: {
    readonly height: unknown;
    readonly parent_id: Uint8Array;
    readonly view: unknown;
    readonly parent_view: unknown;
    readonly parent_voter_indices: Uint8Array;
    readonly parent_voter_sig_data: Uint8Array;
  };
  readonly block_seals: readonly { readonly block_id: Uint8Array; readonly result_id: Uint8Array }[];
  readonly execution_receipt_metaList: readonly { readonly result_id: Uint8Array }[];
  readonly execution_result_list: readonly Record<string, unknown>[];
}
