import { describe, expect, it } from 'vitest';
import { MAX_WINDOW_CELLS } from '../../src/api/index.js';
import type { StatusDocument } from '../../src/api/index.js';
import type { FaultRule } from '../../src/devnet/index.js';
import { daemonOn, devnetForTest } from '../support/runningDaemon.js';
import type { DaemonHere } from '../support/runningDaemon.js';
import { violations } from '../support/schemaCheck.js';
import type { JsonSchema } from '../support/schemaCheck.js';

/** Every call by which a collection can be had. */
const bodies = ['GetFullCollectionByID', 'GetCollectionByID', 'GetTransaction'];
const HEAD = 1_500;
const STUCK = 40;

async function schemaFaults(daemon: DaemonHere, status: StatusDocument): Promise<string[]> {
  const { components } = (await daemon.api('/openapi.json')).body as {
    readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
  };
  return violations({ $ref: '#/components/schemas/Status' }, status, components.schemas);
}

describe('the status of a running daemon', () => {
  it('tells of each height of a window that stands: its state, its age, and the cause', async () => {
    const faults = bodies.map((method): FaultRule => ({
      method,
      fault: 'error',
      code: 'INTERNAL',
      message: 'no disk',
      fromHeight: STUCK,
      toHeight: STUCK,
    }));
    const devnet = await devnetForTest({ seed: 5, profile: 'dense', startHead: HEAD, paused: true, faults });
    const daemon = await daemonOn(devnet, '--start-height', 'root', '--no-edi', '--window', '64');
    const status = await daemon.statusUntil(
      ({ endpoints, latestIndexed, oldestMissing, window }) =>
        latestIndexed === STUCK - 1 &&
        (oldestMissing?.ageSeconds ?? 0) > 3 &&
        window.upperBound === STUCK - 1 + 64 &&
        window.cells.some(({ state }) => state === 'durable') &&
        endpoints.some(({ calls, lastHour }) => calls.length > 0 && lastHour.errors > 0),
    );
    expect(await schemaFaults(daemon, status)).toEqual([]);

    const { cells, upperBound } = status.window;
    const [lowest] = cells;
    expect(upperBound).toBe(STUCK - 1 + 64);
    expect(lowest).toMatchObject({ from: STUCK, to: STUCK, state: 'collecting' });
    expect(lowest?.ageSeconds).toBeGreaterThan(3);
    expect(lowest?.reason).toMatch(new RegExp(`collections of height ${STUCK}: .*no disk`));
    // Each height once, none left out.
    expect(cells.at(-1)?.to).toBe(upperBound);
    for (const [index, { from, to }] of cells.entries()) {
      expect(from).toBe(index === 0 ? STUCK : (cells[index - 1]?.to ?? 0) + 1);
      expect(to).toBeGreaterThanOrEqual(from);
    }

    const block = devnet.chain.block(STUCK);
    expect(status.oldestMissing).toMatchObject({ height: STUCK, reason: lowest?.reason });
    expect(block.collections.map(({ id }) => id)).toContain(status.oldestMissing?.collectionId);
    const [node] = status.endpoints;
    expect(node).toMatchObject({ origin: 'configured', lowestHeight: 0 });
    expect(node?.latencySeconds).toBeGreaterThan(0);
    expect(node?.lastHour.errors).toBeGreaterThan(0);
    expect(node?.calls[0]?.endsInSeconds).toBeGreaterThan(0);
    expect(status.lowestServed).toBe(0);
  });

  it('tells what was done in the last hour, and what a rate limit leaves of a node', async () => {
    const devnet = await devnetForTest({
      ...{ seed: 5, profile: 'dense', startHead: HEAD, blockIntervalMs: 200, ratePerSecond: 20 },
    });
    const daemon = await daemonOn(devnet, '--start-height', String(HEAD), '--window', '4096');
    const status = await daemon.statusUntil(({ endpoints, lastHour, throughput }) => {
      const [minute] = lastHour;
      return (
        (throughput?.collectionsPerSecond ?? 0) > 0 &&
        (minute?.commits ?? 0) > 3 &&
        endpoints.some(({ limits }) => limits.some(({ isLearned }) => isLearned))
      );
    });
    expect(await schemaFaults(daemon, status)).toEqual([]);
    const [minute] = status.lastHour;
    const first = (minute?.requester.first ?? 0) + (minute?.edi.first ?? 0);
    // Five in each block.
    expect(first).toBeGreaterThanOrEqual(4 * 5);
    expect(minute?.heights).toBeGreaterThanOrEqual(minute?.commits ?? 0);
    expect(minute?.bytes).toBeGreaterThan(0);
    expect(status.throughput?.commits).toMatchObject({ seconds: expect.any(Number) as number });
    expect(status.window.cells.length).toBeLessThanOrEqual(MAX_WINDOW_CELLS);
  });

  it('bounds the cells of a large window', async () => {
    const stall = bodies.map((method): FaultRule => ({ method, fault: 'stall' }));
    const devnet = await devnetForTest({ seed: 5, startHead: 9_000, paused: true, faults: stall });
    const daemon = await daemonOn(devnet, '--start-height', 'root', '--no-edi', '--window', '4096');
    const { window } = await daemon.statusUntil(({ window: { inFlight } }) => inFlight > 1_000);
    expect(window.cells.length).toBeGreaterThan(1);
    expect(window.cells.length).toBeLessThanOrEqual(MAX_WINDOW_CELLS);
    expect(window.cells.at(-1)?.to).toBe(window.upperBound);
  });
});
