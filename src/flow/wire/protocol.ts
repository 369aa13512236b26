import type * as protoLoader from '@grpc/proto-loader';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { packageRoot } from '../../runtime/index.js';

/** Loads a package when it is first used: what reads the interface takes a tenth of the start, and is needed after it. */
export const requirePackage = createRequire(import.meta.url);

/** The folder of the interface files. */
export const protoRoot = join(packageRoot, 'proto');

const loading: protoLoader.Options = {
  includeDirs: [protoRoot],
  keepCase: true,
  longs: String,
  enums: String,
  bytes: Buffer,
  defaults: true,
  oneofs: true,
};

/**
 * Reads Flow's interface, as far as we know it, and our own, for `@grpc/grpc-js`: services by full name
 * (`flow.access.AccessAPI`), messages beside them. Messages are plain objects with the field names of
 * the `.proto` files: 64-bit integers are decimal strings, bytes are Buffers, enums are their names, absent scalars are
 * their defaults and absent messages null. Synchronous; takes tens of milliseconds: call it once and keep the result.
 */
export function loadProtocol(): protoLoader.PackageDefinition {
  const { loadSync } = requirePackage('@grpc/proto-loader') as typeof protoLoader;
  const services = [
    'flow/access/access',
    'flow/executiondata/executiondata',
    'flow_collection_indexer/v1/index',
  ];
  return loadSync(
    services.map((service) => `${service}.proto`),
    loading,
  );
}

/** Files with one service each. */
const files = {
  'flow.access.AccessAPI': 'flow/access/access.proto',
  'flow.executiondata.ExecutionDataAPI': 'flow/executiondata/executiondata.proto',
} as const;

export type FlowService = keyof typeof files;

/** The methods of a service, read from the text of its file: a parser would have to load all of `proto/` at the start. */
export function serviceMethods(service: FlowService): readonly string[] {
  const text = readFileSync(join(protoRoot, files[service]), 'utf8');
  return [...text.matchAll(/^ *rpc (\w+)/gm)].map(([, method = '']) => method);
}
