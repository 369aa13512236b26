import { OperatorError } from '../../runtime/index.js';
import { parseEndpoint } from '../transport/endpoint.js';
import type { Endpoint } from '../transport/endpoint.js';
import type { PoolMember } from './poolMember.js';

/** The nodes that the operator named, each in the form of `parseEndpoint`. */
export interface NamedNodes {
  /** Historic nodes may be among them. None: the peers stand in for them. */
  readonly accessNodes: readonly string[];
  /** The nodes asked for execution data. Default: the access nodes. */
  readonly executionDataNodes?: readonly string[];
  /** Other indexers, which give collections; without access nodes everything. Default: none. */
  readonly peers?: readonly string[] | undefined;
}

interface ConfiguredNode {
  readonly endpoint: Endpoint;
  readonly roles: PoolMember['roles'];
}

/**
 * Each named node once, with all its roles; access nodes first. Expected errors: OperatorError `configuration` for an
 * unusable endpoint, or without an access node.
 */
export function configuredNodes(named: NamedNodes): readonly ConfiguredNode[] {
  const executionData = parseEndpoints(named.executionDataNodes ?? named.accessNodes);
  const peers = parseEndpoints(named.peers ?? []);
  const access = named.accessNodes.length === 0 ? peers : parseEndpoints(named.accessNodes);
  if (access.size === 0) {
    throw new OperatorError(
      'configuration',
      'No access node is named. Set accessNodes to at least one host:port.',
    );
  }
  const all = [access, executionData, peers].flatMap((endpoints) => [...endpoints.values()]);
  return [...all.reduce(addEndpoint, new Map<string, Endpoint>())].map(([name, endpoint]) => ({
    endpoint,
    roles: { access: access.has(name), executionData: executionData.has(name), peer: peers.has(name) },
  }));
}

/** By name; a node named twice is one node. */
function parseEndpoints(texts: readonly string[]): ReadonlyMap<string, Endpoint> {
  return texts.map(parseEndpoint).reduce(addEndpoint, new Map<string, Endpoint>());
}

function addEndpoint(endpoints: Map<string, Endpoint>, endpoint: Endpoint): Map<string, Endpoint> {
  const known = endpoints.get(endpoint.name);
  if (known !== undefined && known.tls !== endpoint.tls) {
    throw new OperatorError(
      'configuration',
      `The access node ${endpoint.name} is named both as grpc:// and as grpcs://. Name it once.`,
    );
  }
  return endpoints.set(endpoint.name, endpoint);
}
