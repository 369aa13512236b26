import type { AccessMethod } from '../types.js';

const ACCESS = 'flow.access.AccessAPI';
const EXECUTION_DATA = 'flow.executiondata.ExecutionDataAPI';
const INDEX = 'flow_collection_indexer.v1.IndexAPI';

/** The services of the methods that are not of `AccessAPI`. */
const SERVICES: Readonly<Partial<Record<AccessMethod, string>>> = {
  SubscribeExecutionDataFromStartBlockHeight: EXECUTION_DATA,
  SubscribeExecutionData: EXECUTION_DATA,
  GetCommitteeEvidence: INDEX,
  SubscribeIndexedBlocks: INDEX,
};

/** An indexer's counterparts: a block with its proof, as it does not keep enough for a full block. */
export const PROVABLE: Readonly<Partial<Record<AccessMethod, string>>> = {
  GetBlockByHeight: 'GetProvableBlock',
  SubscribeBlocksFromStartHeight: 'SubscribeProvableBlocks',
};

/** The path of a method at a node, or at an indexer that gives blocks with their proofs (`isProvable`). */
export function pathOf(method: AccessMethod, isProvable = false): string {
  const provable = isProvable ? PROVABLE[method] : undefined;
  return provable === undefined ? `/${SERVICES[method] ?? ACCESS}/${method}` : `/${INDEX}/${provable}`;
}
