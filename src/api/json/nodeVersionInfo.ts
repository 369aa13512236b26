import * as t from '../schema.js';
import type { nodeVersion } from '../view/nodeVersion.js';

export const networkParametersSchema = t.named('NetworkParameters', t.object({ chain_id: t.text }));

export const nodeVersionInfoSchema = t.named(
  'NodeVersionInfo',
  t.object(
    {
      semver: t.note('The version of the indexer, with a leading v.', t.text),
      commit: t.note('Always empty.', t.text),
      spork_id: t.note('Of the newest spork that can be read; empty when no node reported one.', t.hexDigits),
      protocol_version: t.note('Always 0: the indexer takes no part in the protocol.', t.decimal),
      protocol_state_version: t.note('Always 0.', t.decimal),
      spork_root_block_height: t.decimal,
      node_root_block_height: t.note('The first indexed height.', t.decimal),
    },
    {
      compatible_range: t.note(
        'The heights that can be read; absent while there are none.',
        t.object({ start_height: t.decimal, end_height: t.decimal }),
      ),
    },
  ),
);

export function restNodeVersionInfo(
  node: ReturnType<typeof nodeVersion>,
): t.Described<typeof nodeVersionInfoSchema> {
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
