import { consecutiveSporks, type DevnetHandle } from '../../../src/devnet/index.js';
import { atEnd, devnetForTest, lastingPort, scratchDirectory, storeFlags } from '../../support/daemons.js';
import { chain, succeeds, type Scenes } from '../Stage.js';
import { bodies } from './nodes.js';

const FAR = 3_000;
const LAST = 99;
const DISCARDED = 5;

function sporks() {
  const common = { paused: true, executionDataLag: -4 };
  const ends = [{ lastHeight: LAST, discarded: DISCARDED }];
  const [before, after] = consecutiveSporks({ seed: 31, ends, common });
  if (before === undefined || after === undefined) throw new Error('one end makes two sporks');
  return { before, after: { ...after, startHead: LAST + 60 } };
}

/** A chain that grows by a block in so many milliseconds, until the returned function is called. */
export function growing(devnet: DevnetHandle, everyMs: number, blocks = 1): () => void {
  const timer = setInterval(() => devnet.node.head.advance(blocks), everyMs);
  atEnd(() => clearInterval(timer));
  return () => clearInterval(timer);
}

export const chainScenes: Scenes = {
  'head stands still': async (stage) => {
    const { devnet } = await stage.startUsual({}, ['--ready-max-head-age-seconds', '5']);
    const stop = growing(devnet, 250);
    await stage.provoke({
      alerts: ['FlowIndexerHeadStale', 'FlowIndexerHeadOld'],
      fault: 'the chain stands still, with `--ready-max-head-age-seconds 5`',
      strike: stop,
      repaired: 'it goes on',
      fix: () => {
        growing(devnet, 250);
      },
    });
  },
  'head falls back': async (stage) => {
    const port = await lastingPort();
    const options = { ...chain, profile: 'empty', port } as const;
    let devnet = await devnetForTest({ ...options, startHead: FAR });
    const instance = await stage.start(devnet, scratchDirectory(), ['--start-height', '0']);
    await stage.daemon(instance).reaches(FAR);
    await stage.provoke({
      alerts: ['FlowIndexerHeadBehind'],
      fault: 'the node comes back with a head 2,900 heights lower, as one that is being restored',
      strike: async () => {
        await devnet.close();
        devnet = await devnetForTest({ ...options, startHead: FAR - 2_900 });
      },
      repaired: 'its head is where it was',
      fix: () => devnet.node.head.set(FAR + 1),
    });
  },
  'start is ahead': async (stage) => {
    const devnet = await devnetForTest(chain);
    await stage.provoke({
      alerts: ['FlowIndexerStartHeightAhead'],
      fault: 'a daemon is started with `--start-height 500`, and the head is 60',
      strike: () => stage.start(devnet, scratchDirectory(), ['--start-height', '500']),
      repaired: 'the chain gets there',
      fix: () => devnet.node.head.set(510),
    });
  },
  'chain is replaced': async (stage) => {
    const port = await lastingPort();
    let devnet = await devnetForTest({ ...chain, port });
    const instance = await stage.start(devnet, scratchDirectory(), ['--start-height', '0']);
    await stage.daemon(instance).reaches(chain.startHead);
    const replace = async (seed: number): Promise<void> => {
      await devnet.close();
      devnet = await devnetForTest({ ...chain, seed, port, startHead: 70 });
    };
    await stage.provoke({
      alerts: ['FlowIndexerChainReplaced'],
      fault: 'the network begins anew: at the address of the node is one of another chain',
      strike: () => replace(99),
      repaired: 'the old one is there again',
      fix: () => replace(chain.seed),
    });
  },
  'a spork begins': async (stage) => {
    const { after, before } = sporks();
    const port = await lastingPort();
    const node = await devnetForTest(before);
    const dataDir = scratchDirectory();
    const flags = ['--start-height', '0', '--access-node', `127.0.0.1:${port}`];
    const instance = await stage.start(node, dataDir, flags);
    await stage.daemon(instance).reaches(LAST + DISCARDED);
    await stage.provoke({
      // First nobody can say whether there is such a spork, and then that there is.
      alerts: ['FlowIndexerNotVouched', 'FlowIndexerParentMismatch'],
      fault: `a spork that the table lacks begins at height ${LAST + 1}, and discards ${DISCARDED} indexed blocks`,
      strike: () => devnetForTest({ ...after, port }),
      repaired: `\`rewind --to ${LAST} --yes\`, and a start with \`--access-spork-root ${LAST + 1}\``,
      fix: async () => {
        await stage.daemon(instance).program.stop();
        await succeeds('rewind', '--to', String(LAST), '--yes', ...storeFlags(dataDir));
        await stage.restart(instance, '--access-spork-root', String(LAST + 1));
        await stage.daemon(instance).ready();
      },
    });
  },
  behind: async (stage) => {
    const flags = ['--no-edi', '--requester-concurrency', '1', '--window', '2'];
    const { devnet } = await stage.startUsual({ profile: 'dense' }, flags);
    let stop = (): void => undefined;
    await stage.provoke({
      alerts: ['FlowIndexerBehind', 'FlowIndexerLagging'],
      fault: 'every answer of the node takes half a second, and the chain grows by 20 heights a second',
      strike: () => {
        devnet.node.setFaults([{ method: 'GetFullCollectionByID', fault: 'latency', delayMs: 500 }]);
        stop = growing(devnet, 100, 2);
      },
      repaired: 'the node is quick, and the chain rests',
      fix: () => {
        stop();
        devnet.node.setFaults([]);
      },
    });
  },
  unresolvable: async (stage) => {
    const late = ['--requester-unresolvable-after-ms', '2000', '--requester-backoff-max-ms', '1000'];
    const { devnet } = await stage.startUsual({}, ['--no-edi', ...late]);
    const lost = { fault: 'error', code: 'NOT_FOUND', message: 'could not find collection' } as const;
    await stage.provoke({
      alerts: ['FlowIndexerUnresolvable'],
      fault: 'no node has the collections of a height, with `--requester-unresolvable-after-ms 2000`',
      strike: () => {
        devnet.node.setFaults(bodies.map((method) => ({ method, ...lost })));
        devnet.node.head.advance(10);
      },
      repaired: 'the node has them',
      fix: () => devnet.node.setFaults([]),
    });
  },
};
