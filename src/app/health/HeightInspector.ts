import type { AccessNetwork } from '../../access/index.js';
import { blockAbove, MAX_MISSING_SHOWN } from '../../api/index.js';
import type {
  HeightWork,
  MissingDocument,
  NamedHeight,
  WorkDocument,
  WorkMoment,
  WorkSource,
} from '../../api/index.js';
import type { HeightExplanation, MissingExplanation } from '../../collections/index.js';
import type { Identifier } from '../../flow/index.js';
import type { IndexStore } from '../../storage/index.js';
import type { IndexingLine } from '../line/indexingLine.js';
import type { BackfillWatch } from './BackfillWatch.js';
import type { Reporter } from './Reporter.js';

interface WorkParts {
  readonly backfillWatch: Pick<BackfillWatch, 'plannedAt'>;
  readonly network: Pick<AccessNetwork, 'namesServing'>;
  readonly reporter: Pick<Reporter, 'range' | 'status'>;
  readonly store: Pick<IndexStore, 'blocksAboveWatermark'>;
}

/** What the daemon can tell of the work on one height, read from the parts of the line at the moment of asking. */
export class HeightInspector implements WorkSource {
  readonly #stopHeight: number | null;
  readonly #parts: WorkParts;
  #line: IndexingLine | undefined;

  constructor(options: { readonly stopHeight: number | undefined }, parts: WorkParts) {
    this.#stopHeight = options.stopHeight ?? null;
    this.#parts = parts;
  }

  running(line: IndexingLine): void {
    this.#line = line;
  }

  momentAt(height: number): WorkMoment {
    const { backfillWatch, reporter, store } = this.#parts;
    return {
      range: reporter.range(),
      durableId: blockAbove(store, { height })?.id,
      daemon: { reasons: reporter.status().reasons, work: this.#workAt(height) },
      history: backfillWatch.plannedAt(height),
    };
  }

  #workAt(height: number): HeightWork | undefined {
    const line = this.#line;
    if (line === undefined) return undefined;
    const { network, reporter } = this.#parts;
    const { waitingFor, sources, endpoints } = reporter.status();
    const explained = line.processor.explain(height);
    const serving = network.namesServing(height);
    return {
      stage: explained.stage === 'indexed' ? 'durable' : explained.stage,
      blockId: explained.blockId ?? line.blocks.blockAt(height)?.id ?? null,
      upperBound: line.window.upperBound(),
      stopHeight: this.#stopHeight,
      work: workOf(explained),
      holdingUp: waitingFor,
      sources: {
        nodes: endpoints.map(({ name, state, reason }) => ({
          ...{ name, state, servesHeight: serving.has(name), trouble: reason },
        })),
        executionData: sources.edi,
      },
    };
  }

  naming(id: Identifier): NamedHeight | undefined {
    const above = blockAbove(this.#parts.store, { id });
    if (above !== undefined) return { kind: 'block', height: above.height };
    return this.#line?.mcq.naming(id);
  }
}

function workOf(explained: HeightExplanation): WorkDocument | null {
  const { ageMs, guarantees, missing, executionData = null, dispute = null } = explained;
  if (ageMs === undefined || guarantees === undefined) return null;
  return {
    ageSeconds: ageMs / 1000,
    collections: guarantees,
    missing: missing.length,
    missingCollections: missing.slice(0, MAX_MISSING_SHOWN).map(missingOf),
    executionData,
    dispute: dispute === '' ? null : dispute,
  };
}

function missingOf({ id, trail }: MissingExplanation): MissingDocument {
  return {
    collectionId: id,
    isUnderWay: trail?.isUnderWay ?? false,
    attempts: trail?.attempts ?? 0,
    notFound: trail?.notFound ?? 0,
    lastNode: trail?.lastNode ?? null,
    lastError: trail?.lastError ?? null,
    lastAskedAt: trail?.lastAskedAt === undefined ? null : timeOf(trail.lastAskedAt),
    failures: [...(trail?.failures ?? [])].map(([node, { count, lastError, lastAt }]) => ({
      ...{ node, count, lastError, lastAt: timeOf(lastAt) },
    })),
  };
}

function timeOf(wallClockMs: number): string {
  return new Date(wallClockMs).toISOString();
}
