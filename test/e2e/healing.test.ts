import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { DevnetHandle } from '../../src/devnet/index.js';
import { scratchDirectory } from '../support/program.js';
import { devnetForTest, runDaemonHere, startArguments, startDaemonHere } from '../support/runningDaemon.js';
import type { DaemonHere } from '../support/runningDaemon.js';
import { storePath } from '../support/storeDump.js';

const LAST = 40;
/** Slow enough that what is damaged at once has not been verified yet. */
const SCRUB = ['--scrub-bytes-per-second', '60000', '--requester-backoff-max-ms', '500'];

/** Asks for all blocks and collections: each is right, or healing. Gives the heights that are. */
async function healingHeights(daemon: DaemonHere, { chain }: DevnetHandle): Promise<ReadonlySet<number>> {
  const healing = new Set<number>();
  for (let height = 0; height <= LAST; height += 1) {
    const { id, collections } = chain.block(height);
    const paths = [
      [`/v1/blocks?height=${height}`, id],
      ...collections.map((each) => [`/v1/collections/${each.id}?expand=transactions`, each.id]),
    ];
    for (const [path = '', wanted = ''] of paths) {
      const { body, status } = await daemon.api(path);
      if (status === 503) {
        expect(body, path).toMatchObject({ reason: 'healing' });
        healing.add(height);
      } else {
        expect(status, `${path}: ${JSON.stringify(body)}`).toBe(200);
        expect(JSON.stringify(body), path).toContain(wanted);
      }
    }
  }
  return healing;
}

it('damage below a daemon that serves is healed by it: a byte of a table', async () => {
  const devnet = await devnetForTest({
    ...{ seed: 19, profile: 'dense', startHead: LAST, paused: true, sealedLag: 0 },
  });
  const dataDir = scratchDirectory();
  const flags = startArguments(devnet, dataDir, '--start-height', '0');
  expect(await runDaemonHere([...flags, '--stop-height', String(LAST)])).toMatchObject({ code: 0 });
  const daemon = await startDaemonHere([...flags, ...SCRUB]);
  await daemon.reaches(LAST);
  // Nobody has what would heal it, until it was seen.
  devnet.node.setFaults(
    (['GetFullCollectionByID', 'GetCollectionByID', 'SubscribeExecutionData*'] as const).map(
      (method) => ({ method, fault: 'error', code: 'NOT_FOUND' }) as const,
    ),
  );
  const [table = ''] = readdirSync(storePath(dataDir)).filter((name) => name.endsWith('.ldb'));
  const file = join(storePath(dataDir), table);
  const bytes = readFileSync(file);
  // Within the bodies. A damaged key would hide its record until the scrub comes to it.
  const place = Math.floor(bytes.length / 3);
  bytes[place] = (bytes[place] ?? 0) ^ 0x10;
  writeFileSync(file, bytes, { flag: 'r+' });
  const seen = await healingHeights(daemon, devnet);
  devnet.node.setFaults([]);
  expect(seen.size).toBeGreaterThan(0);

  const healed = await daemon.scrapeUntil(
    (metrics) =>
      metrics.value('damaged_heights_total') >= seen.size &&
      metrics.value('healed_heights_total') === metrics.value('damaged_heights_total'),
  );
  expect(healed.value('latest_indexed_height')).toBe(LAST);
  expect(await healingHeights(daemon, devnet)).toEqual(new Set());
  await daemon.ready();
  const status = await daemon.status();
  expect(status).toMatchObject({ healing: [], firstIndexed: 0, coverage: [{ from: 0, to: LAST }] });
  // The scrub may come upon another one at any time.
  const named = () =>
    daemon.program.logs().filter(({ msg }) => String(msg).startsWith('a stored height is damaged'));
  await daemon.scrapeUntil((metrics) => named().length === metrics.value('damaged_heights_total'));
  // Once more, with whatever has been left behind.
  expect(await daemon.program.stop()).toBe(0);
  const again = await startDaemonHere(flags);
  await again.reaches(LAST);
  expect(await healingHeights(again, devnet)).toEqual(new Set());
  expect(await again.program.stop()).toBe(0);
});
