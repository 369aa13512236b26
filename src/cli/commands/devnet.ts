import { readFileSync } from 'node:fs';
import { devnetSettings, loadSettings } from '../../config/index.js';
import { parseFaults, startDevnet } from '../../devnet/index.js';
import { messageOf, OperatorError } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { Invocation, Terminal } from '../command.js';

/** `devnet`: runs the simulated access node until it is stopped. */
export async function devnet(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const { values } = loadSettings(devnetSettings, {
    file: undefined,
    environment: {},
    flags: invocation.flags,
  });
  const top = values.endHeight ?? Number.MAX_SAFE_INTEGER;
  const devnet = await startDevnet({
    host: values.host,
    port: values.port,
    seed: values.seed,
    chainId: values.chainId,
    profile: values.profile,
    rootHeight: values.rootHeight,
    startHead: Math.min(values.rootHeight + values.history, top),
    ...(values.endHeight === null ? {} : { endHeight: values.endHeight }),
    ...(values.sporkOf === null ? {} : { previousSeed: values.sporkOf }),
    blockIntervalMs: values.blockIntervalMs,
    sealedLag: values.sealedLag,
    collectionLagMs: values.collectionLagMs,
    collectionLagSpreadMs: values.collectionLagSpreadMs,
    ratePerSecond: values.ratePerSecond,
    executionData: values.executionData,
    systemChunk: values.systemChunk,
    streams: values.streams,
    maxStreams: values.maxStreams,
    fullCollections: values.fullCollections,
    nodeVersionInfo: values.nodeVersionInfo,
    ...(values.faults === null ? {} : { faults: readFaults(values.faults) }),
  });
  for (const output of terminal.outputs) output.neverWait();
  const { rootHeight } = values;
  terminal.out(
    `simulated access node at ${devnet.url}: ${values.chainId}, seed ${values.seed}, heights ${rootHeight} to ` +
      `${devnet.node.head.finalized} and growing\n`,
  );
  const stopped = new Promise<void>((resolve) => {
    if (terminal.signal.aborted) resolve();
    else terminal.signal.addEventListener('abort', () => resolve(), { once: true });
  });
  // A bug in the node rejects `finished`.
  await Promise.race([stopped, devnet.finished]);
  await devnet.close();
  return 'done';
}

function readFaults(path: string): ReturnType<typeof parseFaults> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new OperatorError('configuration', `Cannot read the fault script ${path}: ${messageOf(error)}.`, {
      cause: error,
    });
  }
  return parseFaults(text, path);
}
