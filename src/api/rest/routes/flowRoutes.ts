import type { IndexReader, IndexStore } from '../../../storage/index.js';
import {
  networkParametersSchema,
  nodeVersionInfoSchema,
  restNodeVersionInfo,
} from '../../json/nodeVersionInfo.js';
import type { Route } from '../../openapi/route.js';
import { IndexView } from '../../view/IndexView.js';
import { nodeVersion } from '../../view/nodeVersion.js';
import { wantsProven } from '../../view/queryParameters.js';
import type { Query } from '../../view/queryParameters.js';
import { provenOnly } from '../../view/statusDocument.js';
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
    return new IndexView(wantsProven(query) ? provenOnly(range) : range, { reader });
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
