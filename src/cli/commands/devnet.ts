import type { devnetSettings } from '../../config/index.js';
import { parseFaults, startDevnet } from '../../devnet/index.js';
import { whenAborted } from '../../runtime/index.js';
import { readArgument, type Run } from '../command.js';

export const devnet: Run<typeof devnetSettings> = async (invocation, terminal) => {
  const { history, endHeight, sporkOf, faults, ...options } = invocation.flags;
  const { chainId, seed, rootHeight } = options;
  const devnet = await startDevnet({
    ...options,
    startHead: Math.min(rootHeight + history, endHeight ?? Number.MAX_SAFE_INTEGER),
    ...(endHeight === null ? {} : { endHeight }),
    ...(sporkOf === null ? {} : { previousSeed: sporkOf }),
    ...(faults === null ? {} : { faults: parseFaults(readArgument(faults, 'the fault script '), faults) }),
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
