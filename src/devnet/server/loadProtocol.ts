import { loadSync, type PackageDefinition } from '@grpc/proto-loader';
import { join } from 'node:path';
import { packageRoot } from '../../runtime/index.js';

const SERVICES = [
  'flow/access/access',
  'flow/executiondata/executiondata',
  'flow_collection_indexer/v1/index',
];

/**
 * Reads Flow's interface, as far as we know it, and our own, for `@grpc/grpc-js`: services by full name
 * (`flow.access.AccessAPI`), messages beside them. Messages are plain objects with the field names of
 * the `.proto` files: 64-bit integers are decimal strings, bytes are Buffers, enums are their names, absent scalars are
 * their defaults and absent messages null. Synchronous; takes tens of milliseconds: call it once and keep the result.
 */
export function loadProtocol(): PackageDefinition {
  return loadSync(
    SERVICES.map((service) => `${service}.proto`),
    {
      includeDirs: [join(packageRoot, 'proto')],
      keepCase: true,
      longs: String,
      enums: String,
      bytes: Buffer,
      defaults: true,
      oneofs: true,
    },
  );
}
