import { describe, expect, it } from 'vitest';
import type { StatusDocument } from '../../src/api/index.js';
import type { DevnetHandle, DevnetOptions, FaultRule } from '../../src/devnet/index.js';
import type { Readiness, ReadinessReason } from '../../src/observability/index.js';
import { runCommand } from '../support/commandLine.js';
import { eventually, scratchDirectory } from '../support/program.js';
import { devnetForTest, startArguments, startDaemonHere } from '../support/runningDaemon.js';
import type { DaemonHere } from '../support/runningDaemon.js';

const HEAD = 60;
const chain = { seed: 21, startHead: HEAD, paused: true, executionDataLag: -4 } satisfies DevnetOptions;

/** Every call by which a collection can be had. */
const bodies = ['GetFullCollectionByID', 'GetCollectionByID', 'GetTransaction'];

async function daemonOn(devnet: DevnetHandle, ...flags: string[]): Promise<DaemonHere> {
  const args = startArguments(devnet, scratchDirectory(), '--start-height', '0', ...flags);
  return startDaemonHere(args);
}

async function reasonOf(daemon: DaemonHere, code: ReadinessReason['code']): Promise<ReadinessReason> {
  return eventually(async () => {
    const { reasons } = (await daemon.health('/readyz')).body as Readiness;
    return reasons.find((reason) => reason.code === code);
  });
}

async function status(daemon: DaemonHere): Promise<StatusDocument> {
  return await daemon.status();
}

/** What the command says of a running daemon. */
async function told(command: string, daemon: DaemonHere, ...words: string[]): Promise<string> {
  const { port } = new URL(daemon.apiUrl);
  return (await runCommand([command, ...words, '--api-port', port])).stdout;
}

/** The warnings of one code. */
function warnings(daemon: DaemonHere, code: string): Record<string, unknown>[] {
  return daemon.program.logs().filter((line) => line['msg'] === 'not ready' && line['code'] === code);
}

/** Every other cause, for every call: the fault matrix. */
describe('what holds the daemon up for good', () => {
  it('is named everywhere: a node whose collections are all wrong', async () => {
    const faults = bodies.map((method): FaultRule => ({ method, fault: 'wrong_body' }));
    const devnet = await devnetForTest({ ...chain, faults });
    const daemon = await daemonOn(devnet, '--no-edi');

    const { message, height = 0 } = await reasonOf(daemon, 'upstream_invalid');
    const named = new RegExp(
      `^waiting for \\d+ of \\d+ collections of height ${height}: .*${devnet.address}.*times since`,
    );
    expect(message).toMatch(named);
    const { waitingFor, lag } = await status(daemon);
    expect(waitingFor?.height).toBe(height);
    expect(waitingFor?.message).toMatch(named);
    expect(lag).toBeGreaterThan(0);
    expect(await told('status', daemon)).toContain(`upstream_invalid: waiting for`);
    expect(await told('explain', daemon, String(height))).toMatch(
      new RegExp(`upstream_invalid.*${devnet.address}`),
    );
    expect(warnings(daemon, 'upstream_invalid')).toHaveLength(1);
    expect(String(warnings(daemon, 'upstream_invalid')[0]?.['detail'])).not.toMatch(/[0-9a-f]{64}/);
    const metrics = await daemon.scrape();
    expect(metrics.value('ready')).toBe(0);
    expect(metrics.sum('not_ready', { code: 'upstream_invalid' })).toBe(1);

    devnet.node.setFaults([]);
    await daemon.reaches(HEAD);
    await eventually(async () => ((await daemon.scrape()).value('ready') === 1 ? true : undefined));
  });

  it('is a chain that does not reach the start height yet', async () => {
    const devnet = await devnetForTest(chain);
    const daemon = await startDaemonHere(startArguments(devnet, scratchDirectory(), '--start-height', '500'));
    const said = `waiting for the chain to reach height 500, the first of this store; its head is ${HEAD}`;
    // The sealed head may be told first.
    await eventually(
      async () => (await reasonOf(daemon, 'start_height_ahead')).message === said || undefined,
    );
    expect(daemon.program.logs().map((line) => line['msg'])).not.toContain('reached the head');
  });
});
