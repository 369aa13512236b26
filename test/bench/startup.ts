/**
 * How soon the daemon serves once it is started, and what a command costs that needs no daemon. Build first: it runs
 * `dist/main.js`. `--program FILE`, several times, compares builds: their starts take turns, so that all of them meet the same machine.
 */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { get } from 'node:http';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join, relative, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ChainGenerator } from '../../src/devnet/index.js';
import { startLiveDaemon } from './lib/liveDaemon.js';
import { startBenchNode } from './lib/node.js';
import { ROOT, scratch, startProcess } from './lib/processes.js';
import { bench, digits } from './lib/report.js';
import type { Table } from './lib/report.js';
import { median } from './lib/statistics.js';
import { scriptOptions } from '../support/scriptOptions.js';

const PROFILE = 'dense';
const SEED = 1;
const HEIGHTS = 200;
const STARTS_PER_ROUND = 3;
/** Between two questions: often enough for the figure, and seldom enough to leave the processors to the daemon. */
const POLL_MS = 5;
/** Nothing is asked before: no Node.js serves so soon. */
const QUIET_MS = 150;
const OK = 200;
const COMMANDS = [['--version'], ['--help'], ['start', '--help'], ['completion', 'bash']];

/** Milliseconds from the start of the process to the first answer. */
interface Start {
  readonly live: number;
  readonly ready: number;
  readonly read: number;
}

const { values: args } = scriptOptions({
  options: { program: { type: 'string', multiple: true, default: ['dist/main.js'] } },
  strict: false,
});
const programs = args.program.map((file) => resolve(ROOT, String(file)));
const [program = ''] = programs;

await bench(
  {
    title: 'Starting',
    about:
      'From the start of the process to the first 200 of /livez, the first answer of /readyz, whatever it says, and the first 200 for a ' +
      `collection that is stored, by id; on a store of ${HEIGHTS} blocks of 5 × 10 whose files are in the cache of the system. ` +
      'Beside it, commands that need no daemon, from their start to their end.',
  },
  async ({ rounds }) => {
    const node = await startBenchNode({ profile: PROFILE, seed: SEED, heights: HEIGHTS });
    const dataDir = mkdtempSync(join(scratch, 'data-'));
    const filling = await startLiveDaemon({ node: node.address, mode: 'edi-only', dataDir, program });
    await filling.reaches(HEIGHTS);
    await filling.stop();
    const id = new ChainGenerator({ profile: PROFILE, seed: SEED }).block(HEIGHTS).collections[0]?.id ?? '';
    const startsOf = programs.map((each) => ({ program: each, starts: [] as Start[] }));
    for (let round = 0; round < rounds * STARTS_PER_ROUND; round += 1) {
      for (const { program: each, starts } of startsOf)
        starts.push(await startDaemon(each, { node: node.address, dataDir, path: `/v1/collections/${id}` }));
    }
    node.close();
    const starts = startsOf[0]?.starts ?? [];
    const commands = COMMANDS.map((command) => ({
      command: command.join(' '),
      ms: median(Array.from({ length: rounds * STARTS_PER_ROUND }, () => commandMs([program, ...command]))),
    }));
    const nodeAloneMs = median(Array.from({ length: rounds }, () => commandMs(['-e', '0'])));
    const of = (pick: (start: Start) => number): number => median(starts.map(pick));
    const serving = [
      ['/livez', of(({ live }) => live)],
      ['/readyz', of(({ ready }) => ready)],
      ['first read', of(({ read }) => read)],
    ] as const;
    return {
      tables: [
        ...(programs.length > 1 ? [comparison(startsOf)] : []),
        {
          title: `Medians of ${starts.length} starts`,
          columns: ['what', 'ms'],
          rows: [
            ...serving.map(([what, ms]) => [`start to ${what}`, digits(ms)]),
            ['Node.js alone, to its end', digits(nodeAloneMs)],
            ...commands.map(({ command, ms }) => [command, digits(ms)]),
          ],
        },
      ],
      figures: serving.map(([what, ms]) => ({
        what: `start to serving, ${what}`,
        value: ms / 1_000,
        unit: 's',
        atMost: 0.6,
      })),
    };
  },
);
process.exit(0);

/** Builds beside each other: what the machine does besides lengthens medians, and minima hardly. */
function comparison(of: readonly { readonly program: string; readonly starts: readonly Start[] }[]): Table {
  const cells = (values: readonly number[]): string[] => [
    digits(median(values)),
    digits(Math.min(...values)),
  ];
  return {
    title: 'Builds beside each other, ms: median and minimum',
    columns: ['program', '/livez', 'min', '/readyz', 'min', 'first read', 'min'],
    rows: of.map(({ program: each, starts }) => [
      relative(ROOT, each),
      ...cells(starts.map(({ live }) => live)),
      ...cells(starts.map(({ ready }) => ready)),
      ...cells(starts.map(({ read }) => read)),
    ]),
  };
}

async function startDaemon(
  file: string,
  { node, dataDir, path }: { readonly node: string; readonly dataDir: string; readonly path: string },
): Promise<Start> {
  const [apiPort = 0, metricsPort = 0] = await freePorts(2);
  const startedAtMs = performance.now();
  const daemon = startProcess([
    ...[file, 'start', '--network', 'devnet', '--access-node', node, '--data-dir', dataDir],
    ...['--api-port', String(apiPort), '--metrics-port', String(metricsPort), '--api-grpc-port', '0'],
    ...['--log-format', 'json', '--log-level', 'error'],
  ]);
  daemon.stdout?.resume();
  await sleep(QUIET_MS);
  const until = async (port: number, asked: string, isIt: (status: number) => boolean): Promise<number> => {
    while (!isIt(await statusOf(port, asked))) {
      if (daemon.exitCode !== null) throw new Error(`the daemon ended with ${daemon.exitCode}`);
      await sleep(POLL_MS);
    }
    return performance.now() - startedAtMs;
  };
  const live = await until(metricsPort, '/livez', (status) => status === OK);
  const ready = await until(metricsPort, '/readyz', (status) => status > 0);
  const read = await until(apiPort, path, (status) => status === OK);
  daemon.kill('SIGTERM');
  await once(daemon, 'exit');
  return { live, ready, read };
}

/** 0: nobody listens. */
function statusOf(port: number, path: string): Promise<number> {
  return new Promise((answered) => {
    get({ host: '127.0.0.1', port, path, agent: false }, (response) => {
      response.resume().once('end', () => answered(response.statusCode ?? 0));
    }).once('error', () => answered(0));
  });
}

function commandMs(command: readonly string[]): number {
  const startedAtMs = performance.now();
  spawnSync(process.execPath, command, { stdio: 'ignore' });
  return performance.now() - startedAtMs;
}

async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise<void>((closed) => server.close(() => closed()))));
  return ports;
}
