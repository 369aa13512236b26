import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { loadSync, type Options, type PackageDefinition } from '@grpc/proto-loader';

/** Everything under `proto/`: services by full name (`flow.access.AccessAPI`), messages beside them. */
export type ProtocolDefinition = PackageDefinition;

// Both src/flow/ and dist/flow/ stand two floors below the package root.
const protoRoot = fileURLToPath(new URL('../../proto', import.meta.url));

const loading: Options = {
  includeDirs: [protoRoot],
  keepCase: true,
  longs: String,
  enums: String,
  bytes: Buffer,
  defaults: true,
  oneofs: true,
};

/**
 * Reads Flow's interface, as far as we know it, for `@grpc/grpc-js`. Messages are plain objects with the field names of the
 * `.proto` files: 64-bit integers are decimal strings, bytes are Buffers, enums are their names, absent scalars their
 * defaults and absent messages null. Synchronous; takes some tens of milliseconds: call it once and keep the result.
 */
export function loadProtocol(): ProtocolDefinition {
  return loadSync(['flow/access/access.proto', 'flow/executiondata/executiondata.proto'], loading);
}

/**
 * Every file under `proto/`, each as an encoded `google.protobuf.FileDescriptorProto`; one per package, whatever files it is
 * written in. Synchronous, as `loadProtocol`.
 */
export function loadDescriptors(): readonly Buffer[] {
  const files = readdirSync(protoRoot, { recursive: true, encoding: 'utf8' });
  const definitions = Object.values(
    loadSync(
      files.filter((file) => file.endsWith('.proto')),
      loading,
    ),
  );
  // Each message carries the descriptors of all files that were read together.
  for (const definition of definitions) {
    if ('fileDescriptorProtos' in definition) return definition.fileDescriptorProtos as readonly Buffer[];
  }
  throw new Error('proto/ holds no message');
}
