import { probeOn } from '../../support/grpcProbe.js';
import { atEnd } from '../../support/cleanup.js';
import { pause, type Scenes } from '../Stage.js';

const ROUNDS = 12;

export const readerScenes: Scenes = {
  // Provokes nothing: it is for the panels that only callers fill.
  readers: async (stage) => {
    const { instance } = await stage.startUsual({ blockIntervalMs: 200, paused: false }, ['--api-forward']);
    const daemon = stage.daemon(instance);
    const follower = new AbortController();
    atEnd(() => follower.abort());
    const events = await fetch(`${daemon.apiUrl}/events`, { signal: follower.signal });
    void events.body?.pipeTo(new WritableStream(), { signal: follower.signal }).catch(() => undefined);
    const probe = probeOn(daemon.grpcAddress);
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const path of ['/status', '/v1/blocks?height=final', '/v1/blocks/abc', '/nowhere']) {
        await fetch(daemon.apiUrl + path);
      }
      await probe.call('GetLatestBlock');
      // Not of an index: forwarded, and refused by the simulated node.
      await probe.call('GetAccount', { address: Buffer.alloc(8) }).catch(() => undefined);
      await pause(1_000);
    }
  },
};
