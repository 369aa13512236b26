import type { IndexStore } from '../../src/storage/index.js';
import { standIn } from '../support/standIn.js';
import { testify } from './Steps.js';
import type { Operation, Steps } from './Steps.js';

/** The store, with a step before and after whatever changes it, and a word about each commit that was answered. */
export function stepped(inner: IndexStore, steps: Steps, isRewindCommand: boolean): IndexStore {
  const rewindName = isRewindCommand ? 'rewind' : 'anew';
  steps.shownWatermark = () => (inner.meta() === undefined ? undefined : inner.latestIndexedHeight());
  const during = async (operation: Operation, action: () => Promise<void> | undefined): Promise<void> => {
    steps.operation = operation;
    await action();
    steps.operation = 'idle';
  };
  const rewind = async (action: () => Promise<void>): Promise<void> => {
    steps.take(`${rewindName}.called`);
    await during('rewind', action);
    steps.take(`${rewindName}.told`);
  };
  return standIn(() => inner, {
    initialise: async (meta) => {
      steps.take('begin.called');
      await during('begin', () => inner.initialise(meta));
      testify({ testimony: 'durable', heights: [], watermark: inner.latestIndexedHeight() });
      steps.take('begin.told');
    },
    commit: async (batch) => {
      steps.take('commit.called');
      steps.commitCalled();
      await during('commit', () => inner.commit(batch));
      const heights = batch.blocks.map(({ block }) => block.height);
      testify({ testimony: 'durable', heights, watermark: inner.latestIndexedHeight() });
      steps.take(steps.isStopping ? 'stop.commit.told' : 'commit.told');
    },
    rewind: (height) => rewind(() => inner.rewind(height)),
    forgetAbove: () => rewind(() => inner.forgetAbove()),
    addProofs: async (proven) => {
      steps.take('prove.called');
      await during('prove', () => inner.addProofs(proven));
      steps.take('prove.told');
    },
  });
}
