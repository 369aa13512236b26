import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../runtime/index.js';

/** The folder of the interface files. */
export const protoRoot = join(packageRoot, 'proto');

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
