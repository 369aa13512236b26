import type { Scenes } from '../Stage.js';
import { growing } from './chain.js';
import { bodies } from './nodes.js';

export const progressScenes: Scenes = {
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
