import { describe, expect, it } from 'vitest';
import type { DevnetHandle, DevnetOptions } from '../../src/devnet/index.js';
import { devnetForTest, startArguments, startDaemonHere } from '../support/runningDaemon.js';
import type { DaemonHere } from '../support/runningDaemon.js';
import { eventually, scratchDirectory } from '../support/program.js';

/** Epochs begin at heights 12, 24, 36 and 48; the block at 50 skips a view. */
const EPOCH_VIEWS = 12;
const HEAD = 46;
/** In the epoch after that of `HEAD`. */
const LATER = 56;
const METHOD = 'GetProtocolStateSnapshotByHeight';
/** The first block of epoch 2. The last certificate of epoch 1 is for the block below, and proves the one below that. */
const BORDER = 24;

function epochsForTest(options: DevnetOptions = {}): Promise<DevnetHandle> {
  return devnetForTest({
    ...{ seed: 37, startHead: HEAD, paused: true, hashedIds: true, profile: 'empty' },
    ...{ certificatesEvery: 1, epochViews: EPOCH_VIEWS },
    ...options,
  });
}

const proofOf = async (daemon: DaemonHere) => (await daemon.status()).proof;
const proven = (daemon: DaemonHere, height: number) =>
  daemon.scrapeUntil((metrics) => metrics.value('proven_height') === height);
const reasonOf = (daemon: DaemonHere, part: string) =>
  eventually(async () => {
    const { reason } = await proofOf(daemon);
    return reason?.includes(part) === true ? reason : undefined;
  });

const start = (node: DevnetHandle, dataDir: string, ...flags: readonly string[]) =>
  startDaemonHere(startArguments(node, dataDir, '--start-height', 'root', ...flags));

describe('a daemon on a chain of epochs that shows what is proven', () => {
  const flags = ['--proof-finality', 'proven'];
  const readable = async (daemon: DaemonHere): Promise<unknown> => {
    const { body } = await daemon.api('/v1/blocks?height=final');
    return Number((body as { header: { height: string } }[])[0]?.header.height);
  };

  it('catches up over three switches of the committee, restarts among them, and follows the next', async () => {
    const node = await epochsForTest();
    const dataDir = scratchDirectory();
    const first = await start(node, dataDir, ...flags);
    const metrics = await proven(first, HEAD - 2);
    expect(await proofOf(first)).toMatchObject({
      ...{ anchor: { kind: 'first_use', height: 0 }, committee: { epoch: 3, members: 5 }, reason: null },
      latestCertificate: { height: HEAD - 1, signers: 4, weight: 400, threshold: 334 },
    });
    // One for each epoch that was learned, and none twice.
    const asked = { method: METHOD };
    expect(metrics.sum('upstream_requests_total', asked)).toBe(4);
    expect(await first.program.stop()).toBe(0);

    const again = await start(node, dataDir, ...flags);
    await eventually(async () => (await proofOf(again)).latestCertificate ?? undefined);
    expect((await proven(again, HEAD - 2)).sum('upstream_requests_total', asked)).toBe(0);
    node.node.head.set(LATER);
    await proven(again, LATER - 2);
    expect((await proofOf(again)).committee).toMatchObject({ epoch: 4 });
    expect((await again.scrape()).sum('upstream_requests_total', asked)).toBe(1);
    await eventually(async () => (await readable(again)) === LATER - 2);
    expect(await again.program.stop()).toBe(0);
  });

  it('proves nothing by a committee that nobody has committed, and names the height', async () => {
    const forger = await epochsForTest({ forgedEpoch: 2 });
    const daemon = await start(forger, scratchDirectory(), ...flags);
    await daemon.reaches(HEAD);
    const reason = await reasonOf(daemon, 'is invalid');
    expect(reason).toMatch(/^the certificate in block \d+ is invalid: another committee voted$/);
    await proven(daemon, BORDER - 2);
    expect((await daemon.reason('proof_failed')).message).toContain(
      `the chain is proven up to ${BORDER - 2}`,
    );
    expect((await proofOf(daemon)).committee).toMatchObject({ epoch: 1 });
    expect(await readable(daemon)).toBe(BORDER - 2);
    expect(await daemon.program.stop()).toBe(0);
  });
});
