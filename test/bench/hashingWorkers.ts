/**
 * Whether verifying belongs in worker threads. What can be measured is measured: what a block costs the event loop when it
 * is verified there, and what it costs the event loop and the worker when it is sent away and comes back. What cannot be
 * run here, more processors than there are, is computed from that.
 */
import { performance } from 'node:perf_hooks';
import { Worker } from 'node:worker_threads';
import { Chain } from '../../src/devnet/index.js';
import type * as Flow from '../../src/flow/index.js';
import { runDaemon } from './lib/daemonRun.js';
import { built, builtFile } from './lib/limits.js';
import { startBenchNode } from './lib/node.js';
import { bench, digits } from './lib/report.js';
import { interleave, median } from './lib/statistics.js';

const { decodeBlockMessage, decodeExecutionDataResponse, VerificationMemory, verifyBlockCollections } =
  (await built('flow/index.ts')) as typeof Flow;

/** Blocks that are on their way to the worker and back at once. */
const IN_FLIGHT = 16;
const PROCESSORS = [2, 3, 4, 8];

interface Item {
  readonly block: Flow.FinalizedBlock;
  readonly message: Buffer;
}

interface Cost {
  readonly loopUs: number;
  readonly workerUs: number;
}

function inline(items: readonly Item[]): Cost {
  const memory = new VerificationMemory();
  const start = performance.now();
  for (const { block, message } of items) {
    verifyBlockCollections(block, decodeExecutionDataResponse(message), memory);
  }
  return { loopUs: ((performance.now() - start) * 1000) / items.length, workerUs: 0 };
}

/** Busy time of both event loops, from their own books. */
async function inWorker(worker: Worker, items: readonly Item[]): Promise<Cost> {
  const own = performance.eventLoopUtilization();
  const other = worker.performance.eventLoopUtilization();
  await new Promise<void>((resolve) => {
    let sent = 0;
    let received = 0;
    const send = (): void => {
      const item = items[sent];
      if (item === undefined) return;
      sent += 1;
      // What came from the network lies in a buffer that is not ours to give away.
      const message = new Uint8Array(item.message).buffer;
      worker.postMessage({ block: item.block, message }, [message]);
    };
    worker.on('message', () => {
      received += 1;
      send();
      if (received < items.length) return;
      worker.removeAllListeners('message');
      resolve();
    });
    for (let index = 0; index < IN_FLIGHT; index += 1) send();
  });
  const perBlock = (activeMs: number): number => (activeMs * 1000) / items.length;
  return {
    loopUs: perBlock(performance.eventLoopUtilization(own).active),
    workerUs: perBlock(worker.performance.eventLoopUtilization(other).active),
  };
}

await bench(
  {
    title: 'Verifying in worker threads',
    about:
      'What verifying a block of 5 × 10 costs the event loop, there and in one worker thread (the message copied and ' +
      'transferred, the collections transferred back), and what the whole daemon costs while it catches up from ' +
      'execution data. From these a model tells the rate with more processors than this machine has: no thread does more ' +
      'than a second of work in a second, and all of them together no more than there are processors, of which the ' +
      'node is left one where there are more than two, and half of the two.',
  },
  async ({ quick, rounds }) => {
    const count = quick ? 500 : 3000;
    const chain = new Chain({ seed: 7, profile: 'dense' });
    const items = Array.from({ length: count }, (_, index): Item => {
      const { encoded } = chain.block(index + 1);
      return { block: decodeBlockMessage(encoded), message: chain.executionData(index + 1) };
    });
    const worker = new Worker(new URL('./lib/hashingWorker.mjs', import.meta.url), {
      workerData: { flow: await builtFile('flow/index.ts') },
      // Without what runs this file: the worker is plain JavaScript.
      execArgv: [],
    });
    // Both warm up before they are measured.
    inline(items);
    await inWorker(worker, items);
    const costs = await interleave(
      { inline: () => inline(items), worker: () => inWorker(worker, items) },
      { rounds },
    );
    await worker.terminate();

    const node = await startBenchNode({ profile: 'dense', seed: 7, heights: count });
    const daemon = await runDaemon({ node: node.address, mode: 'edi-only', heights: count });
    node.close();

    const middle = (own: readonly Cost[], pick: (cost: Cost) => number): number => median(own.map(pick));
    const verifyUs = middle(costs.inline, ({ loopUs }) => loopUs);
    const sendUs = middle(costs.worker, ({ loopUs }) => loopUs);
    const workerUs = middle(costs.worker, (cost) => cost.workerUs);
    const allUs = (daemon.userMsPerHeight + daemon.systemMsPerHeight) * 1000;
    const loopUs = Math.min(daemon.loopMsPerHeight * 1000, allUs);
    const rates = (processors: number): { inline: number; workers: number } => {
      const available = processors === 2 ? 1 : processors - 1;
      const rate = (loop: number, all: number): number => 1e6 / Math.max(loop, all / available);
      return {
        inline: rate(loopUs, allUs),
        // As many workers as it takes: none of them is ever the one that is waited for.
        workers: rate(loopUs - verifyUs + sendUs, allUs - verifyUs + sendUs + workerUs),
      };
    };
    return {
      tables: [
        {
          title: 'Measured, per block',
          columns: ['what', 'µs'],
          rows: [
            ['verifying on the event loop', digits(verifyUs)],
            ['sending it to a worker and taking it back, on the event loop', digits(sendUs)],
            ['verifying in the worker, with its part of the sending', digits(workerUs)],
            ['everything the daemon does, all threads', digits(allUs)],
            ['of that on its event loop', digits(loopUs)],
          ],
        },
        {
          title: 'Computed: heights per second',
          columns: ['processors', 'inline', 'in workers', 'workers ÷ inline'],
          rows: PROCESSORS.map((processors) => {
            const { inline: alone, workers } = rates(processors);
            return [processors, digits(alone), digits(workers), digits(workers / alone)];
          }),
        },
      ],
      figures: [],
    };
  },
);
process.exit(0);
