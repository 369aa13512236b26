import { once } from 'node:events';
import type { ProfileName } from '../../../src/devnet/index.js';
import { firstLine, startTask } from './processes.js';

/** The read that is measured, of random ids among the heights given. */
export type ReadKind = 'transaction' | 'collection';

export interface ReaderOptions {
  readonly profile: ProfileName;
  readonly seed: number;
  readonly heights: number;
  /** As the node that is indexed has it (`ChainOptions`): the blocks' ids are in the transactions. */
  readonly hashedIds?: boolean;
}

export type ReadTask =
  /** Closed loop: `concurrency` readers, each asking again as soon as it is answered. */
  | {
      readonly how: 'http' | 'grpc';
      readonly kind: ReadKind;
      readonly port: number;
      readonly concurrency: number;
      readonly reads: number;
    }
  /** Open loop: `perSecond` reads by the clock, whatever is answered, until the daemon is gone or told to stop. */
  | {
      readonly how: 'offer';
      readonly port: number;
      readonly perSecond: number;
      readonly connections: number;
    };

export interface ReadResult {
  readonly reads: number;
  readonly readsPerSecond: number;
  /** From the moment a read was due (open loop) or sent (closed loop) to its answer. */
  readonly latenciesMs: readonly number[];
  /** Of an open loop, likewise, before it has settled; those above are without them. */
  readonly firstLatenciesMs: readonly number[];
  /** Reads that were answered with 503, and are none of the above. */
  readonly turnedAway: number;
  /** Reads that were due a while before the end, and neither answered nor turned away. */
  readonly unanswered: number;
}

export type ReadClient = Awaited<ReturnType<typeof startReadClient>>;

/** A gRPC server in a process of its own that answers for the same ids and does nothing else. */
export async function startBareServer(options: ReaderOptions) {
  const child = startTask('limits/bareServer.ts', options);
  return { port: Number(await firstLine(child)), close: () => void child.kill('SIGKILL') };
}

export async function startReadClient(options: ReaderOptions) {
  const child = startTask('lib/readProcess.ts', options);
  await once(child, 'message');
  return {
    run: async (task: ReadTask): Promise<ReadResult> => {
      child.send(task);
      const [result] = (await once(child, 'message')) as [ReadResult];
      return result;
    },
    stop: () => void child.send('stop'),
    close: () => void child.kill('SIGKILL'),
  };
}
