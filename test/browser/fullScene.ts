import type { EndpointStatus, StatusDocument } from '../../src/api/index.js';
import { ServedChain, smallChain, statusWith } from '../support/daemons.js';
import type { Scene } from './Stage.js';

const HEAD = 158_000_000;
const HISTORIC = 27;
const RANGES = 12;

/** As much of everything as there may be. The server is the real one; the status would take a day and a data centre. */
export const full: Scene = async (stage) => {
  const chain = smallChain(HEAD - 2, [[], [], []]);
  const served = await ServedChain.start(chain, { sealed: HEAD - 2, head: HEAD + 9 }, { told: status() });
  const page = await stage.page(served.url);
  await page.says(
    `${HISTORIC} nodes of earlier sporks`,
    /\d+ stretches/,
    /Execution data\s+First for [\d.]+ %/,
    /Proven final\s+158,000,000\s+rests on your checkpoint 137,390,146, 8a8a8a8a8a8a8a8a…/,
  );
  await page.isFine('full');
  await page.run("for (const each of document.querySelectorAll('details')) each.open = true;");
  await page.isFine('full-unfolded');
};

const plain = statusWith({ firstIndexed: HEAD, latestIndexed: HEAD, head: HEAD, sealed: HEAD });

function status(): Partial<StatusDocument> {
  const states = ['running', 'running', 'waiting', 'failed', 'disputed'] as const;
  const why = 'GetBlockByHeight at archive-1.example:9000: UNAVAILABLE: the node is being restored';
  const plan = { id: 1, from: 90_000_000, to: 118_999_999, order: 'newest', state: 'active' } as const;
  return {
    ...{ network: 'mainnet', chainId: 'flow-mainnet', ready: true, reasons: [], lag: 9 },
    proof: {
      ...plain.proof,
      ...{ unprovenHeights: 0, provenHeight: HEAD, sealedHeight: HEAD - 4 },
      anchor: { kind: 'checkpoint', height: 137_390_146, id: '8a'.repeat(32) },
      ...{ committee: null, latestCertificate: null },
    },
    ...{ lowestServed: 7_601_063, oldestMissing: null, waitingFor: null, rate: 1.24, eta: null },
    uptimeSeconds: 8_203_111,
    coverage: [
      { from: 7_601_063, to: 31_735_954 },
      { from: 47_169_687, to: 47_169_690 },
      { from: 55_114_467, to: 89_999_999 },
      { from: 120_000_000, to: HEAD },
    ],
    window: {
      ...{ heights: 256, upperBound: HEAD + 256, inFlight: 240 },
      ...{ bytesInFlight: 41_200_000, bytesLimit: 134_217_728 },
    },
    backfill: {
      ...{ missingHeights: 24_880_000, rate: 912, eta: 27_280 },
      heldBack: { share: 0.5, message: 'the event loop is 40 ms late: history makes way' },
      plans: [{ ...plan, missingHeights: 24_880_000, untakenVersion: null }],
      ranges: Array.from({ length: RANGES }, (_, index) => {
        const state = states[index % states.length] ?? 'running';
        const from = plan.from + index * 1_000;
        return {
          ...{ from, to: from + 999, state, next: from + 70 * (index % states.length), waitingFor: null },
          ...(state === 'running' ? { rate: 88.4, eta: 11 } : { rate: 0, eta: null }),
          ...(state === 'failed' ? { failures: 3, reason: why } : { failures: 0, reason: null }),
        };
      }),
      unserved: [{ from: 100_000_000, to: 103_000_000 }],
    },
    endpoints: [
      node('access-1.example:9000', 'configured'),
      node('access-2.example:9000', 'configured', true),
      ...Array.from({ length: HISTORIC }, (_, index) =>
        node(`historic-${index + 1}.example:9000`, 'historic'),
      ),
    ],
  };
}

function node(name: string, origin: EndpointStatus['origin'], isLimited = false): EndpointStatus {
  const limits = [
    { method: 'GetFullCollectionByID', isLearned: true, ratePerSecond: 41.5, pauseSeconds: 0.4, waiting: 17 },
  ] as const;
  const kinds = isLimited ? [{ kind: 'rate_limited', count: 212 } as const] : [];
  return {
    ...plain.endpoints[0]!,
    ...{ name, origin, state: 'healthy', reason: null, sinceSeconds: null, endsInSeconds: null, calls: [] },
    // A node may say up to 256 characters of its version, in one word.
    ...{ lowestHeight: 137_390_146, version: isLimited ? 'v'.repeat(256) : 'v0.43.0' },
    limits: isLimited ? limits : [],
    lastHour: { calls: 44_190, errors: isLimited ? 212 : 0, kinds },
  };
}
