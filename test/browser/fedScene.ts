import type { FaultRule } from '../../src/devnet/index.js';
import { scratchDirectory } from '../support/program.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';
import type { Scene } from './scene.js';
import { StatusPage } from './StatusPage.js';

/** An indexer that another one feeds: the peer is among the sources, and when it goes the page says so. */
export const fed: Scene = async (browser, options) => {
  const slow: FaultRule = { method: 'GetFullCollectionByID', fault: 'latency', delayMs: 100 };
  const chain = { seed: 3, profile: 'dense', startHead: 1_200, blockIntervalMs: 500, sealedLag: 0 } as const;
  const devnet = await devnetForTest({ ...chain, faults: [slow] });
  const flags = ['--start-height', 'root', '--no-edi'];
  const source = await startDaemon(startArguments(devnet, scratchDirectory(), ...flags));
  await source.reaches(1_200);
  const peer = ['--peer', source.grpcAddress];
  const daemon = await startDaemon(startArguments(devnet, scratchDirectory(), ...flags, ...peer));
  await daemon.statusUntil(({ lastHour, lag, sources }) => {
    const first = lastHour.reduce((sum, minute) => sum + minute.peer.first, 0);
    return first > 100 && (lag ?? 9) < 3 && sources.peer.state === 'following';
  });
  const page = await StatusPage.open(browser, daemon.apiUrl, options);
  await page.says(
    /Peer stream\s+First for [\d.]+ %\. Follows /,
    source.grpcAddress,
    '1 of 1 healthy',
    'Peers, which give collections and nothing else',
  );
  await page.isFine('fed');

  await source.program.stop('SIGKILL');
  await page.says(/(Does not come|Being connected): .*ECONNREFUSED/);
  await page.isFine('peer-gone');
  page.neverComplained(daemon.apiUrl);
};
