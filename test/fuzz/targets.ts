import { commandLineTarget, processTarget } from './commandLine.js';
import { configurationTarget } from './configuration.js';
import { endpointTarget } from './endpoints.js';
import { grpcTarget } from './grpc.js';
import { httpTarget } from './http.js';
import { fullBlockTarget, proofDocumentTarget, protocolStateTarget } from './proofs.js';
import type { FuzzTarget } from './target.js';
import { statusTarget } from './statuses.js';
import { tableTarget } from './tables.js';
import { webSocketTarget } from './webSocket.js';
import { wireTarget } from './wire.js';

/** Every way in. */
export const targets: readonly FuzzTarget[] = [
  wireTarget,
  fullBlockTarget,
  protocolStateTarget,
  proofDocumentTarget,
  statusTarget,
  endpointTarget,
  configurationTarget,
  tableTarget,
  commandLineTarget,
  httpTarget,
  webSocketTarget,
  grpcTarget,
  processTarget,
];

/** A process starts before it reads its arguments: that takes a while on a busy machine. */
const PROCESS_MS = 20_000;

export function hangMsOf(target: FuzzTarget): number | undefined {
  return target === processTarget ? PROCESS_MS : undefined;
}
