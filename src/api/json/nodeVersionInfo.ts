import type { NodeVersion } from '../view/nodeVersion.js';

/** Flow's REST form of the served network. */
export interface RestNetworkParameters {
  readonly chain_id: string;
}

/** Flow's REST form of a node's version info, as far as it applies to an index. */
export interface RestNodeVersionInfo {
  /** Of the indexer, behind a `v`. */
  readonly semver: string;
  /** Always empty. */
  readonly commit: string;
  /** Of the newest spork that can be read; empty when no node reported one. */
  readonly spork_id: string;
  /** Always 0: the indexer takes no part in the protocol. */
  readonly protocol_version: string;
  /** Always 0. */
  readonly protocol_state_version: string;
  readonly spork_root_block_height: string;
  /** The first indexed height. */
  readonly node_root_block_height: string;
  /** The heights that can be read; absent while there are none. */
  readonly compatible_range?: { readonly start_height: string; readonly end_height: string };
}

export function restNodeVersionInfo(node: NodeVersion): RestNodeVersionInfo {
  const { readable } = node;
  return {
    semver: node.semver,
    commit: '',
    spork_id: node.sporkId,
    protocol_version: '0',
    protocol_state_version: '0',
    spork_root_block_height: String(node.sporkRootHeight),
    node_root_block_height: String(node.firstHeight),
    ...(readable === undefined
      ? {}
      : { compatible_range: { start_height: String(readable.start), end_height: String(readable.end) } }),
  };
}
