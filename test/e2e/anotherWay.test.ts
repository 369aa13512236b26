import { describe, expect, it } from 'vitest';
import type { DevnetOptions, FaultRule } from '../../src/devnet/index.js';
import { atEnd } from '../support/cleanup.js';
import { GrpcProbe, refusalOf } from '../support/grpcProbe.js';
import { lastingPort } from '../support/lastingPort.js';
import { RestNode } from '../support/restNode.js';
import { eventually, scratchDirectory } from '../support/program.js';
import { devnetForTest, runDaemonHere, startArguments, startDaemonHere } from '../support/runningDaemon.js';
import type { DaemonHere } from '../support/runningDaemon.js';

const HEAD = 60;
const chain = { seed: 31, startHead: HEAD, paused: true } satisfies DevnetOptions;

/** A daemon from the root on, on one node with these faults, for good. */
async function daemonOn(...faults: readonly FaultRule[]): Promise<DaemonHere> {
  const devnet = await devnetForTest({ ...chain, faults });
  return startDaemonHere(startArguments(devnet, scratchDirectory(), '--start-height', 'root'));
}

function warnings(daemon: DaemonHere, message: string): readonly Record<string, unknown>[] {
  return daemon.program.logs().filter(({ msg, level }) => msg === message && level === 'warn');
}

describe('one way that fails for good, with another that works', () => {
  const method = 'SubscribeBlocks*';
  // The fault matrix has every call and fault: test/matrix.
  it('of the block stream', async () => {
    const daemon = await daemonOn({ method, fault: 'error', code: 'INTERNAL', on: 'open' });
    await daemon.reaches(HEAD);
    expect(warnings(daemon, 'block streams fail, using single calls instead')).toMatchObject([
      { node: expect.any(String) as unknown, reason: expect.any(String) as unknown },
    ]);
  });
});

describe('an access node whose chain began anew', () => {
  it('ends the start with a sentence, also where its head is below what is stored', async () => {
    const first = await devnetForTest(chain);
    const dataDir = scratchDirectory();
    const daemon = await startDaemonHere(startArguments(first, dataDir, '--start-height', 'root'));
    await daemon.reaches(HEAD);
    await daemon.program.stop();
    const anew = await devnetForTest({ ...chain, seed: 32, startHead: 20 });
    const { code, stderr, stdout } = await runDaemonHere(startArguments(anew, dataDir));
    expect(code).toBe(76);
    expect(stdout + stderr).toContain('--data-dir');
  });

  it('is left alone while the daemon runs, and nothing is forwarded to it', async () => {
    const port = await lastingPort();
    const devnet = await devnetForTest({ ...chain, port });
    const rest = await RestNode.start();
    const flags = ['--start-height', 'root', '--api-forward', '--api-forward-rest', rest.url];
    const daemon = await startDaemonHere(startArguments(devnet, scratchDirectory(), ...flags));
    await daemon.reaches(HEAD);
    const probe = new GrpcProbe(daemon.grpcAddress);
    atEnd(() => probe.close());
    const overGrpc = async () =>
      (await refusalOf(probe.call('ExecuteScriptAtLatestBlock', { script: Buffer.from('x') }))).code;
    const overRest = async () => (await fetch(`${daemon.apiUrl}/v1/accounts/f8d6e0586b0a20c7`)).status;
    // A devnet runs no scripts, and says so itself.
    expect([await overGrpc(), await overRest()]).toEqual(['UNIMPLEMENTED', 200]);
    await devnet.close();
    await devnetForTest({ ...chain, port, seed: 32, startHead: 20 });
    await eventually(() =>
      warnings(daemon, 'access node is foreign and left out').length > 0 ? true : undefined,
    );
    // The readers hear of it within half a second.
    await eventually(async () => ((await overRest()) === 503 ? true : undefined));
    expect([await overGrpc(), await overRest()]).toEqual(['UNAVAILABLE', 503]);
  });
});
