import type { devnetSettings } from '../../config/index.js';

import { parseFaults, startDevnet } from '../../devnet/index.js';
import { messageOf, OperatorError, readNamedFile, whenAborted } from '../../runtime/index.js';
import type { Run } from '../command.js';

export const devnet: Run<typeof devnetSettings> = async (invocation, terminal) => {
  const { history, endHeight, sporkOf, faults, ...options } = invocation.flags;
  const { chainId, seed, rootHeight } = options;
  const devnet = await startDevnet({
    ...options,
    startHead: Math.min(rootHeight + history, endHeight ?? Number.MAX_SAFE_INTEGER),
    ...(endHeight === null ? {} : { endHeight }),
    ...(sporkOf === null ? {} : { previousSeed: sporkOf }),
    ...(faults === null ? {} : { faults: readFaults(faults) }),
  });
  for (const output of terminal.outputs) output.neverWait();
  terminal.out(
    `simulated access node at ${devnet.url}: ${chainId}, seed ${seed}, heights ${rootHeight} to ` +
      `${devnet.node.head.finalized} and growing\n`,
  );
  // A bug in the node rejects `finished`.
  await Promise.race([whenAborted(terminal.signal), devnet.finished]);
  await devnet.close();
  return 'done';
};

function readFaults(path: string): ReturnType<typeof parseFaults> {
  let text: string;
  try {
    text = readNamedFile(path, { mayBePipe: true }).toString();
  } catch (error) {
    throw new OperatorError('configuration', `Cannot read the fault script ${path}: ${messageOf(error)}.`, {
      cause: error,
    });
  }
  return parseFaults(text, path);
}
