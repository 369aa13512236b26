/**
 * What the devnet costs: generating and encoding blocks of each profile, and serving them over a socket.
 * Run with `npx tsx test/bench/devnet.ts`. Medians of several rounds; compare ratios, not absolute figures.
 */
import { credentials, makeGenericClientConstructor } from '@grpc/grpc-js';
import type { ServiceDefinition } from '@grpc/proto-loader';
import {
  Chain,
  type DevnetOptions,
  profiles,
  type ProfileName,
  startDevnet,
} from '../../src/devnet/index.js';
import { loadProtocol } from '../../src/flow/index.js';

const ROUNDS = 5;
const WARM_UP_HEIGHTS = 500;

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;
}

function print(name: string, values: readonly number[], unit: string): void {
  process.stdout.write(`${name.padEnd(56)} ${median(values).toFixed(1).padStart(10)} ${unit}\n`);
}

function generate(profile: ProfileName, heights: number): void {
  const blocks: number[] = [];
  const executionData: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const chain = new Chain({ profile, seed: round });
    for (let height = 1; height <= WARM_UP_HEIGHTS; height++) chain.executionData(height);
    const first = WARM_UP_HEIGHTS + 1;
    let start = process.cpuUsage();
    for (let height = first; height < first + heights; height++) chain.block(height);
    blocks.push(process.cpuUsage(start).user / heights);
    // Execution data of blocks that are cached, as when both sources read the same heights.
    start = process.cpuUsage();
    const cached = Math.min(heights, 300);
    for (let height = first + heights - cached; height < first + heights; height++)
      chain.executionData(height);
    executionData.push(process.cpuUsage(start).user / cached);
  }
  print(`${profile}: generate and encode a block`, blocks, 'µs of processor');
  print(`${profile}: its execution data on top`, executionData, 'µs of processor');
}

async function serve(name: string, method: string, options: DevnetOptions, heights: number): Promise<void> {
  const rates: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const devnet = await startDevnet({ paused: true, startHead: heights + 10, ...options, seed: round });
    const service = method.includes('ExecutionData')
      ? 'flow.executiondata.ExecutionDataAPI'
      : 'flow.access.AccessAPI';
    const definition = loadProtocol()[service] as ServiceDefinition;
    const entry = definition[method];
    if (entry === undefined) throw new TypeError(method);
    const Client = makeGenericClientConstructor({}, service);
    const client = new Client(devnet.address, credentials.createInsecure(), {
      'grpc.max_receive_message_length': 64 * 1024 * 1024,
      'grpc-node.flow_control_window': 8 * 1024 * 1024,
    });
    const call = client.makeServerStreamRequest(
      entry.path,
      entry.requestSerialize,
      (message: Buffer) => message,
      { start_block_height: '1', block_status: 'BLOCK_FINALIZED' },
    );
    const start = performance.now();
    let count = 0;
    for await (const _message of call) {
      count++;
      if (count === heights) break;
    }
    rates.push((heights * 1000) / (performance.now() - start));
    call.cancel();
    client.close();
    await devnet.close();
  }
  print(name, rates, 'blocks/s');
}

for (const profile of Object.keys(profiles) as ProfileName[])
  generate(profile, profile === 'empty' ? 20_000 : 3000);
await serve(
  'dense: SubscribeBlocksFromStartHeight',
  'SubscribeBlocksFromStartHeight',
  { profile: 'dense' },
  5000,
);
await serve(
  'dense: SubscribeExecutionDataFromStartBlockHeight',
  'SubscribeExecutionDataFromStartBlockHeight',
  { profile: 'dense' },
  3000,
);
await serve(
  'empty: SubscribeBlocksFromStartHeight',
  'SubscribeBlocksFromStartHeight',
  { profile: 'empty' },
  20_000,
);
