/**
 * What a daemon needs of a machine, for docs/sizing.md: disk, network, processor and memory, per block and transaction.
 * The real program against a simulated node, both processes of their own, with a proxy between them that counts bytes.
 * Build first: it runs `dist/main.js`.
 *
 *     npx tsx test/bench/sizing.ts
 *     npx tsx test/bench/sizing.ts --profile dense --heights 2000 --tip-seconds 0
 *
 *     --profile LIST     blocks of the history                                     [empty,mainnet,dense]
 *     --mode LIST        edi-only, requester-only, hybrid                          [edi-only,requester-only,hybrid]
 *     --heights N        blocks per run                                            [by profile]
 *     --tip-seconds N    how long to follow a chain of `mainnet` blocks, 800 ms apart; 0: not at all   [60]
 *
 * The store is weighed after it was opened and closed once more: then nothing of it lies uncompressed in the log.
 */
import { once } from 'node:events';
import { mkdtempSync, readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { startDevnet } from '../../src/devnet/index.js';
import type { ProfileName } from '../../src/devnet/index.js';
import { silentLogger } from '../../src/observability/index.js';
import { systemClock } from '../../src/runtime/index.js';
import { LevelIndexStore } from '../../src/storage/index.js';
import { BlockMaker, CHAIN_ID, FIRST_HEIGHT, payloadBytes } from './lib/blockEntries.js';
import { startCountingProxy } from './lib/countingProxy.js';
import { anonymousMiBOf, modeFlags, runDaemon } from './lib/daemonRun.js';
import type { Mode } from './lib/daemonRun.js';
import { startBenchNode } from './lib/node.js';
import { eachLine, ROOT, scratch, startProcess } from './lib/processes.js';
import { digits, formatTable } from './lib/report.js';
import { scriptOptions } from '../support/scriptOptions.js';

const heightsOf: Readonly<Record<string, number>> = { empty: 100_000, mainnet: 10_000, dense: 5_000 };
const SEED = 1;
const MAINNET_BLOCK_MS = 800;
/** Until a daemon that starts at the tip has settled. */
const SETTLING_MS = 15_000;

const { values: args } = scriptOptions({
  options: {
    profile: { type: 'string', default: 'empty,mainnet,dense' },
    mode: { type: 'string', default: 'edi-only,requester-only,hybrid' },
    heights: { type: 'string' },
    'tip-seconds': { type: 'string', default: '60' },
  },
});
const modes = args.mode.split(',') as Mode[];

async function weigh(dataDir: string): Promise<number> {
  const path = join(dataDir, 'index');
  const dependencies = { logger: silentLogger, clock: systemClock };
  await (await LevelIndexStore.open({ path, chainId: CHAIN_ID }, dependencies)).close();
  return readdirSync(path).reduce((sum, name) => sum + statSync(join(path, name)).size, 0);
}

/** What the blocks of a profile hold, on average. */
function contentsOf(profile: ProfileName, heights: number): { transactions: number; payload: number } {
  const chain = new BlockMaker({ seed: SEED, profile });
  let transactions = 0;
  let payload = 0;
  for (let height = FIRST_HEIGHT; height < FIRST_HEIGHT + heights; height += 1) {
    const entry = chain.at(height);
    for (const { transactionIds } of entry.collections) transactions += transactionIds.length / 32;
    payload += payloadBytes(entry);
  }
  return { transactions: transactions / heights, payload: payload / heights };
}

async function catchUp(): Promise<void> {
  const rows: string[][] = [];
  for (const profile of args.profile.split(',') as ProfileName[]) {
    const heights = Number(args.heights ?? heightsOf[profile] ?? 10_000);
    const { transactions, payload } = contentsOf(profile, heights);
    const node = await startBenchNode({ seed: SEED, profile, heights, blockIntervalMs: 1_000 });
    for (const mode of modes) {
      const proxy = await startCountingProxy(node.address);
      const dataDir = mkdtempSync(join(scratch, 'sizing-'));
      const run = await runDaemon({ node: proxy.address, mode, heights, dataDir });
      const { received, sent } = proxy.bytes();
      proxy.close();
      rows.push([
        ...[profile, mode, digits(heights), digits(transactions), digits(payload)],
        digits((await weigh(dataDir)) / heights),
        ...[digits(received / heights), digits(sent / heights)],
        digits(run.userMsPerHeight + run.systemMsPerHeight),
        ...[digits(run.heightsPerSecond), digits(run.peakAnonymousMiB), digits(run.peakResidentMiB)],
      ]);
    }
    node.close();
  }
  const columns = [
    ...['profile', 'mode', 'blocks', 'transactions/block', 'payload B/block', 'stored B/block'],
    ...['received B/block', 'sent B/block', 'processor ms/block', 'blocks/s'],
    ...['anonymous MiB', 'resident MiB'],
  ];
  process.stdout.write(formatTable({ title: 'Catching up', columns, rows }));
}

async function followTip(seconds: number): Promise<void> {
  const rows: string[][] = [];
  for (const mode of modes) {
    const options = { seed: SEED, profile: 'mainnet', startHead: 200 } as const;
    const node = await startDevnet({ ...options, blockIntervalMs: MAINNET_BLOCK_MS });
    const proxy = await startCountingProxy(node.address);
    const daemon = startProcess([
      ...['--import', resolve(ROOT, 'test/bench/usageProbe.mjs'), resolve(ROOT, 'dist/main.js')],
      ...['start', '--network', 'devnet', '--access-node', proxy.address],
      ...['--data-dir', mkdtempSync(join(scratch, 'sizing-')), '--log-format', 'json'],
      ...['--api-port', '0', '--api-grpc-port', '0', '--metrics-port', '0', ...modeFlags[mode]],
    ]);
    void eachLine(daemon, () => undefined);
    const look = async (): Promise<{ cpuMs: number; received: number; sent: number }> => {
      const answered = once(daemon, 'message');
      daemon.send('usage');
      const [usage] = (await answered) as [{ userCPUTime: number; systemCPUTime: number }];
      return { cpuMs: (usage.userCPUTime + usage.systemCPUTime) / 1_000, ...proxy.bytes() };
    };
    const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));
    await pause(SETTLING_MS);
    const before = await look();
    await pause(seconds * 1_000);
    const after = await look();
    const memory = anonymousMiBOf(daemon);
    daemon.kill('SIGTERM');
    await once(daemon, 'exit');
    proxy.close();
    await node.close();
    rows.push([
      mode,
      digits((after.cpuMs - before.cpuMs) / seconds / 10),
      digits((after.received - before.received) / seconds / 1_000),
      digits((after.sent - before.sent) / seconds / 1_000),
      digits(memory),
    ]);
  }
  const columns = ['mode', 'processor, % of one', 'received kB/s', 'sent kB/s', 'anonymous MiB'];
  process.stdout.write(`\n${formatTable({ title: 'At the tip', columns, rows })}`);
}

await catchUp();
if (Number(args['tip-seconds']) > 0) await followTip(Number(args['tip-seconds']));
