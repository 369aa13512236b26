import type { ServedHeights } from '../../../access/index.js';
import type { FinalizationListener } from '../../../finality/index.js';
import type { Clock } from '../../../runtime/index.js';
import type { IndexStore } from '../../../storage/index.js';
import type { IndexingLine } from '../../line/buildLine.js';
import { heldUpBy } from './heldUp.js';
import type { HeldUp } from './heldUp.js';

interface Surroundings {
  readonly ediOnly: boolean;
  readonly network: { readonly heights: Pick<ServedHeights, 'giver' | 'whyUnserved'> };
  readonly listener: Pick<FinalizationListener, 'sealedHeight' | 'sealedAdvanceAgeMs' | 'sealedTroubles'>;
  readonly store: Pick<IndexStore, 'trouble'>;
  readonly diskWatch: { pause(): { readonly message: string } | undefined };
  readonly descriptors: { trouble(): string | undefined };
  readonly clock: Clock;
}

/** What the lowest missing height of a line waits for, in the live range or another. */
export function lineHeldUp(
  height: number,
  line: IndexingLine,
  { ediOnly, network, listener, store, diskWatch, descriptors, clock }: Surroundings,
): HeldUp {
  const sealedAgeMs = listener.sealedAdvanceAgeMs();
  const block = line.blocks.heldUpBy();
  return heldUpBy(
    {
      height,
      database: store.trouble && { trouble: store.trouble() },
      paused: diskWatch.pause()?.message,
      outOfDescriptors: descriptors.trouble(),
      stage: line.explainer.explain(height).stage,
      commitStartedAtMs: line.indexer.commitStartedAtMs(),
      block:
        block?.isUnserved === true
          ? { ...block, troubles: network.heights.whyUnserved(block.height) }
          : block,
      collections: line.explainer.heldUpBy(height),
      executionData: {
        isOnlySource: ediOnly,
        trouble: line.edi?.trouble(),
        troubles: line.edi?.troubles() ?? [],
      },
      giver: network.heights.giver,
      peerTrouble: line.peer?.trouble(),
      sealedHeight: listener.sealedHeight(),
      sealedAtMs: sealedAgeMs === undefined ? undefined : clock.monotonic() - sealedAgeMs,
      sealedTroubles: listener.sealedTroubles(),
    },
    clock,
  );
}
