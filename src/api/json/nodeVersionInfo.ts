import { decimal, hexDigits, named, note, object, text } from '../schema.js';
import type { Described } from '../schema.js';
import type { nodeVersion } from '../view/nodeVersion.js';

export const networkParametersSchema = named('NetworkParameters', object({ chain_id: text }));

export const nodeVersionInfoSchema = named(
  'NodeVersionInfo',
  object(
    {
      semver: note('The version of the indexer, with a leading v.', text),
      commit: note('Always empty.', text),
      spork_id: note('Of the newest spork that can be read; empty when no node reported one.', hexDigits),
      protocol_version: note('Always 0: the indexer takes no part in the protocol.', decimal),
      protocol_state_version: note('Always 0.', decimal),
      spork_root_block_height: decimal,
      node_root_block_height: note('The first indexed height.', decimal),
    },
    {
      compatible_range: note(
        'The heights that can be read; absent while there are none.',
        object({ start_height: decimal, end_height: decimal }),
      ),
    },
  ),
);

export function restNodeVersionInfo(
  node: ReturnType<typeof nodeVersion>,
): Described<typeof nodeVersionInfoSchema> {
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
