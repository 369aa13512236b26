import { describe, expect, it } from 'vitest';
import { NodeTroubles } from '../../../src/access/index.js';
import { VirtualClock } from '../../support/virtualClock.js';

describe('what stands between us and one thing', () => {
  it('is told by the worst of the calls that a node takes turns with, however they alternate', async () => {
    const clock = new VirtualClock();
    const troubles = new NodeTroubles({ clock });
    for (let round = 0; round < 3; round += 1) {
      troubles.note('a:1', 'SubscribeBlocksFromStartHeight', 'refused', 'ended the stream');
      await clock.advance(1_000);
      troubles.note('a:1', 'GetBlockByHeight', 'unreachable', 'UNAVAILABLE');
      expect(troubles.all()).toEqual([
        {
          ...{ node: 'a:1', method: 'SubscribeBlocksFromStartHeight', kind: 'refused' },
          ...{ said: 'ended the stream', count: 2 * round + 2, sinceMs: 0 },
        },
      ]);
    }
    // It does something else by then.
    troubles.note('a:1', 'SubscribeBlocksFromStartHeight', 'unreachable', 'no answer');
    expect(troubles.all()).toMatchObject([{ kind: 'unreachable', said: 'no answer', count: 7 }]);
    troubles.clear();
    expect(troubles.all()).toEqual([]);
  });

  it('is told by what one call said while another one is silent, until that is long ago', async () => {
    const clock = new VirtualClock();
    const troubles = new NodeTroubles({ clock });
    troubles.note('a:1', 'SubscribeBlockDigestsFromLatest', 'refused', 'ended the stream');
    for (let seconds = 5; seconds < 15; seconds += 5) {
      await clock.advance(5_000);
      troubles.note('a:1', 'GetLatestBlockHeader', 'unreachable', 'read ECONNRESET');
      expect(troubles.all()).toMatchObject([{ kind: 'refused', said: 'ended the stream' }]);
    }
    await clock.advance(5_000);
    troubles.note('a:1', 'GetLatestBlockHeader', 'unreachable', 'read ECONNRESET');
    expect(troubles.all()).toMatchObject([{ kind: 'unreachable', said: 'read ECONNRESET', count: 4 }]);
  });

  it('is no question that was answered, if not as hoped', async () => {
    const clock = new VirtualClock();
    const troubles = new NodeTroubles({ clock });
    troubles.asked('a:1', 'SubscribeBlocksFromStartHeight');
    troubles.asked('b:1', 'SubscribeBlocksFromStartHeight');
    troubles.answered('a:1');
    await clock.advance(3_000);
    expect(troubles.all()).toMatchObject([{ node: 'b:1', kind: 'unreachable', count: 0 }]);
  });
});
