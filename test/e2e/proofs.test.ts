import { describe, expect, it } from 'vitest';
import type { StatusDocument } from '../../src/api/index.js';
import type { DevnetHandle, FaultRule } from '../../src/devnet/index.js';
import { EventReader } from '../support/eventReader.js';
import { GrpcProbe } from '../support/grpcProbe.js';
import { eventually, scratchDirectory } from '../support/program.js';
import { stopAndProve } from '../support/provenStore.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';
import type { RunningDaemon } from '../support/runningDaemon.js';

const HEAD = 120;
const chain = { seed: 31, startHead: HEAD, paused: true, hashedIds: true } as const;
const STREAM = 'SubscribeBlocksFromStartHeight';

const forged = (method: string): FaultRule => ({ method, fault: 'wrong_body', fromHeight: 5 });
const whole = (node: DevnetHandle) => ({
  ...{ firstHeight: 0, latestHeight: HEAD },
  chainAt: () => node.chain,
});

const proofOf = async (daemon: RunningDaemon) => ((await daemon.api('/status')).body as StatusDocument).proof;

describe('a daemon on a chain whose blocks can be proven', () => {
  it('proves every block, and says so', async () => {
    const node = await devnetForTest(chain);
    const dataDir = scratchDirectory();
    const daemon = await startDaemon(
      startArguments(node, dataDir, '--start-height', 'root', '--proof-mode', 'required'),
    );
    const metrics = await daemon.reaches(HEAD);
    expect(metrics.value('unproven_heights')).toBe(0);
    expect(await proofOf(daemon)).toMatchObject({
      ...{ mode: 'required', form: 'H8P8', unprovenHeights: 0 },
    });
    const store = whole(node);
    await stopAndProve(daemon, dataDir, store);
  });

  it('refuses forged guarantees as they arrive, by stream and by call, and takes the other node', async () => {
    const liar = await devnetForTest({ ...chain, faults: [forged(STREAM), forged('GetBlockByHeight')] });
    const honest = await devnetForTest(chain);
    const dataDir = scratchDirectory();
    const flags = ['--start-height', 'root', '--access-node', honest.address];
    const daemon = await startDaemon(startArguments(liar, dataDir, ...flags));
    const metrics = await daemon.reaches(HEAD);
    expect(metrics.sum('invalid_blocks_total', { endpoint: honest.address })).toBe(0);
    expect(metrics.value('unproven_heights')).toBe(0);
    await stopAndProve(daemon, dataDir, whole(honest));
  });

  it('counts what it takes on the word of a node whose ids are made up, and warns once', async () => {
    const node = await devnetForTest({ ...chain, hashedIds: false });
    const dataDir = scratchDirectory();
    const daemon = await startDaemon(startArguments(node, dataDir, '--start-height', 'root'));
    const metrics = await daemon.reaches(HEAD);
    expect(metrics.value('unproven_heights')).toBe(HEAD + 1);
    expect(await proofOf(daemon)).toMatchObject({
      ...{ mode: 'auto', form: null },
      reason: expect.stringContaining('does not know') as string,
    });
    await stopAndProve(daemon, dataDir, whole(node));
    const warnings = daemon.program.stdout.match(/blocks are taken on the word of the nodes/g);
    expect(warnings).toHaveLength(1);
  });
});

describe('a daemon whose readers see only what is proven final', () => {
  const MINORITY_FROM = 111;
  /** Two below the last block whose certificate holds; block 100 has one of the timeouts. */
  const PROVEN = MINORITY_FROM - 3;
  const flags = ['--start-height', 'root', '--proof-finality', 'proven'];
  const heightOf = async (daemon: RunningDaemon, query: string) => {
    const { body, status } = await daemon.api(`/v1/blocks?${query}`);
    return status === 200 ? Number((body as { header: { height: string } }[])[0]?.header.height) : status;
  };
  const proven = (daemon: RunningDaemon, height: number) =>
    daemon.scrapeUntil((metrics) => metrics.value('proven_height') === height);

  it('indexes on where a minority signs, says so, and shows nothing above the proven height, also after a restart', async () => {
    const node = await devnetForTest({
      ...chain,
      ...{ startHead: MINORITY_FROM - 1, certificatesEvery: 1, minorityFrom: MINORITY_FROM },
    });
    const dataDir = scratchDirectory();
    const daemon = await startDaemon(
      startArguments(node, dataDir, ...flags, '--ready-max-lag', '5', '--index-accounts'),
    );
    await proven(daemon, PROVEN);
    expect((await daemon.health('/readyz')).status).toBe(200);
    const stream = await EventReader.open(`${daemon.apiUrl}/events?from=${PROVEN - 1}`);

    node.node.head.set(HEAD);
    await daemon.reaches(HEAD);
    const { reasons } = await eventually(async () => {
      const { body } = await daemon.health('/readyz');
      const said = body as Pick<StatusDocument, 'ready' | 'reasons'>;
      return said.reasons.some(({ code }) => code === 'proof_failed') ? said : undefined;
    });
    expect(reasons.map(({ code }) => code)).toEqual(expect.arrayContaining(['behind', 'proof_failed']));
    const failed = reasons.find(({ code }) => code === 'proof_failed');
    expect(failed?.height).toBeGreaterThanOrEqual(MINORITY_FROM);
    expect(failed?.message).toContain(`rewind to that height`);
    expect(failed?.message).toContain(`the chain is proven up to ${PROVEN}`);

    const status = (await daemon.api('/status')).body as StatusDocument;
    expect(status).toMatchObject({ latestIndexed: PROVEN, lag: HEAD - PROVEN, ready: false });
    expect(status.proof).toMatchObject({ finality: 'proven', provenHeight: PROVEN });
    expect(await heightOf(daemon, 'height=final')).toBe(PROVEN);
    expect(await heightOf(daemon, `height=${PROVEN + 1}`)).toBe(404);
    const { id } = node.chain.block(PROVEN + 1);
    expect((await daemon.api(`/v1/blocks/${id}`)).status).toBe(404);
    expect((await daemon.api(`/v1/blocks?height=${PROVEN}`)).body).toMatchObject([{ proven: true }]);
    const grpc = new GrpcProbe(daemon.grpcAddress);
    const latest = await grpc.call('GetLatestBlock', {});
    grpc.close();
    expect(latest).toMatchObject({
      block: { height: String(PROVEN) },
      metadata: { latest_finalized_height: String(PROVEN) },
    });
    const events = await stream.first(2);
    expect(events.map(({ data }) => data)).toMatchObject([
      { height: PROVEN - 1, proven: true },
      { height: PROVEN, proven: true },
    ]);
    stream.close();
    expect(await daemon.program.stop()).toBe(0);

    // Without a node nothing says who signs: what was readable before has to be proven again.
    await node.close();
    const alone = await startDaemon(startArguments(node, dataDir, ...flags));
    await alone.reaches(HEAD);
    expect((await alone.api('/status')).body).toMatchObject({
      latestIndexed: null,
      proof: { provenHeight: null },
    });
    expect(await heightOf(alone, `height=${PROVEN}`)).toBe(404);
    await alone.program.stop();
  });

  it('finds the proven height again after a restart', async () => {
    const node = await devnetForTest({ ...chain, certificatesEvery: 1 });
    const dataDir = scratchDirectory();
    for (let start = 0; start < 2; start += 1) {
      const daemon = await startDaemon(startArguments(node, dataDir, ...flags));
      await proven(daemon, HEAD - 2);
      expect(await heightOf(daemon, 'height=final')).toBe(HEAD - 2);
      expect(await daemon.program.stop()).toBe(0);
    }
  });
});
