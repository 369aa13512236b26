import { get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { lastingPort } from '../../support/lastingPort.js';
import { Program } from '../../support/program.js';
import { owned } from './processes.js';

/** Between two questions: often enough for the figure, and seldom enough to leave the processors to the daemon. */
const POLL_MS = 5;
/** Nothing is asked before: no Node.js serves so soon. */
const QUIET_MS = 150;
const OK = 200;

export interface Start {
  /** The first 200 of /livez. */
  readonly live: number;
  /** The first answer of /readyz, whatever it says. */
  readonly ready: number;
  /** The first 200 for the path that is read. */
  readonly read: number;
}

/** Starts the real program on a store, asks it until it has answered everything, and stops it. */
export async function timedStart(node: string, dataDir: string, path: string): Promise<Start> {
  const [apiPort, metricsPort] = [await lastingPort(), await lastingPort()];
  const startedAtMs = performance.now();
  const program = new Program([
    ...['start', '--network', 'devnet', '--access-node', node],
    ...['--data-dir', dataDir, '--api-port', String(apiPort), '--metrics-port', String(metricsPort)],
    ...['--api-grpc-port', '0', '--log-format', 'json', '--log-level', 'error'],
  ]);
  owned(program.child);
  await sleep(QUIET_MS);
  const until = async (port: number, asked: string, isIt: (status: number) => boolean): Promise<number> => {
    while (!isIt(await statusOf(port, asked))) {
      if (program.child.exitCode !== null) throw new Error(`the daemon has ended: ${program.stderr}`);
      await sleep(POLL_MS);
    }
    return performance.now() - startedAtMs;
  };
  const live = await until(metricsPort, '/livez', (status) => status === OK);
  const ready = await until(metricsPort, '/readyz', (status) => status > 0);
  const read = await until(apiPort, path, (status) => status === OK);
  await program.stop();
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
