import * as t from '../../schema.js';
import type { IndexReader, IndexStore } from '../../../storage/index.js';
import type { Route } from '../../openapi/route.js';
import { IndexView, nodeVersion } from '../../view/IndexView.js';
import { wantsProven } from '../../view/queryParameters.js';
import type { Query } from '../../view/queryParameters.js';
import { provenOnly } from '../../view/indexedRange.js';
import type { StatusSource } from '../../view/statusDocument.js';
import { blockRoutes } from './blockRoutes.js';
import { collectionRoutes } from './collectionRoutes.js';
import { tagged } from './keptResponse.js';
import { transactionRoutes } from './transactionRoutes.js';

/**
 * The routes of Flow's REST interface that an index can serve, in Flow's shapes. Each request sees one view of the
 * index, as of its arrival.
 */
export function flowRoutes(
  options: {
    readonly chainId: string;
    /** Version of the program. */
    readonly version: string;
  },
  dependencies: {
    readonly reader: IndexReader & Pick<IndexStore, 'meta'>;
    readonly status: Pick<StatusSource, 'range'>;
  },
): readonly Route[] {
  const { reader, status } = dependencies;
  const now = (query: Query = {}): IndexView => {
    const range = status.range();
    return new IndexView(wantsProven(query) ? provenOnly(range) : range, {
      reader,
      now: () => status.range(),
    });
  };
  return [
    ...blockRoutes(now),
    ...collectionRoutes(() => now()),
    ...transactionRoutes(() => now()),
    {
      path: '/v1/network/parameters',
      operation: 'getNetworkParameters',
      summary: 'The indexed chain.',
      parameters: [],
      response: networkParametersSchema,
      errors: [],
      handle: () => tagged('network', { chain_id: options.chainId }),
    },
    {
      path: '/v1/node_version_info',
      operation: 'getNodeVersionInfo',
      summary: 'The version of the indexer, the spork, and the heights that can be read.',
      parameters: [],
      response: nodeVersionInfoSchema,
      errors: ['not_yet_indexed'],
      handle: () =>
        tagged('node', restNodeVersionInfo(nodeVersion(options.version, reader.meta(), status.range()))),
    },
  ];
}

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
