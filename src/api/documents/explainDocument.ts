import { parseIdentifier } from '../../flow/index.js';
import type { Identifier } from '../../flow/index.js';
import { quoted } from '../../runtime/index.js';
import type { BlockHead, IndexReader, IndexStore } from '../../storage/index.js';
import { ApiError } from '../view/ApiError.js';
import type { ExplainDocument, ExplainStage } from './explanation.js';
import { summaryOf } from './explainSummary.js';
import { parseHeight } from '../view/queryParameters.js';
import { awaitsProof, coverageOf, lastReadable, rangeWith } from '../view/indexedRange.js';
import type { IndexedRange } from '../view/indexedRange.js';
import type { PlannedHeight, WorkMoment, HeightWorkSource } from '../view/heightWork.js';

interface Place {
  readonly kind: ExplainDocument['kind'];
  /** Height and block of the lowest place, as far as known. */
  readonly height: number | null;
  readonly blockId: Identifier | null;
}

interface Subject extends Place {
  readonly key: string;
}

/**
 * Why a height, or the block, collection or transaction with an id, is or is not in the index of a running daemon or a closed
 * store. Expected errors: ApiError (400, a key that is neither; `indexer_silent`), StorageError.
 */
export async function explainDocument(
  reader: IndexReader,
  key: string,
  source: HeightWorkSource,
): Promise<ExplainDocument> {
  const subject = await subjectOf(reader, key, source);
  const { kind, height } = subject;
  // Range and work are from the same moment. Below all heights there is no work.
  const moment = await source.momentAt(height ?? NO_HEIGHT);
  const { range, daemon } = moment;
  const at = height === null ? undefined : daemon?.work;
  const stage = height === null ? 'unknown_id' : stageOf(height, moment);
  const work = stage === 'indexed' ? null : (at?.work ?? null);
  const blockId = subject.blockId ?? moment.durableId ?? at?.blockId ?? null;
  const holdingUp = stage === 'indexed' ? null : (at?.holdingUp ?? null);
  const reasons = stage === 'indexed' ? [] : (daemon?.reasons ?? []);
  const { history } = moment;
  const facts = { kind, stage, height, range, work, holdingUp, window: at, key, history };
  return {
    key,
    kind,
    stage,
    summary: summaryOf(facts),
    height,
    blockId,
    firstIndexed: range.firstIndexed,
    latestIndexed: lastReadable(range),
    head: range.head,
    sealed: range.sealed,
    coverage: coverageOf(range),
    work,
    holdingUp,
    sources: at?.sources ?? null,
    reasons,
  };
}

const NO_HEIGHT = -1;

function stageOf(height: number, { range, durableId, daemon, history }: WorkMoment): ExplainStage {
  const { firstIndexed, latestIndexed, head } = range;
  const isShown = firstIndexed !== null && latestIndexed !== null;
  if (isShown && rangeWith(height, range) !== undefined) return 'indexed';
  if (awaitsProof(height, range)) return 'awaiting_proof';
  if (isShown && height <= latestIndexed) return missingStage(height, range, history);
  if (firstIndexed !== null && height < firstIndexed) return missingStage(height, range, history);
  const at = daemon?.work;
  if (at === undefined) {
    if (durableId !== undefined) return 'waiting_for_gap';
    return daemon === undefined ? 'not_indexed' : 'starting';
  }
  switch (at.stage) {
    case 'durable':
      return 'waiting_for_gap';
    case 'committing':
      return 'committing';
    case 'collecting':
      return 'fetching';
    case 'queued':
    case 'outside':
      if (at.stopHeight !== null && height > at.stopHeight) return 'beyond_stop';
      if (head === null || height > head) return head === null ? 'starting' : 'above_head';
      return at.stage === 'queued' ? 'queued' : 'outside_window';
  }
}

/** For a height below the live range that cannot be read. */
function missingStage(height: number, range: IndexedRange, history: PlannedHeight | undefined): ExplainStage {
  if (history !== undefined) return 'backfill';
  return height < (coverageOf(range)[0]?.from ?? Infinity) ? 'below_first_indexed' : 'hole';
}

/** A closed store as a source: it knows the blocks above the watermark. */
export function workOfStore(
  store: Pick<IndexStore, 'blocksAboveWatermark'>,
  range: () => IndexedRange,
  historyAt: (height: number) => PlannedHeight | undefined = () => undefined,
): HeightWorkSource {
  return {
    momentAt: (height) => ({
      range: range(),
      durableId: blockAbove(store, { height })?.id,
      daemon: undefined,
      history: historyAt(height),
    }),
    naming: (id) => {
      const above = blockAbove(store, { id });
      return above && { kind: 'block', height: above.height };
    },
  };
}

/** A block that is durable above the watermark. */
export function blockAbove(
  store: Pick<IndexStore, 'blocksAboveWatermark'>,
  block: { readonly height: number } | { readonly id: Identifier },
): BlockHead | undefined {
  return store
    .blocksAboveWatermark()
    .find(({ height, id }) => ('id' in block ? id === block.id : height === block.height));
}

/** A height, or the id of anything. Expected errors: ApiError (400). */
export function parseExplainKey(key: string): number | Identifier {
  const parsed = parseHeight(key) ?? parseIdentifier(key);
  if (parsed !== undefined) return parsed;
  const message = `expected a height or an ID of 64 hexadecimal digits, got ${quoted(key)}`;
  throw new ApiError(400, 'malformed_id', message);
}

async function subjectOf(reader: IndexReader, key: string, source: HeightWorkSource): Promise<Subject> {
  const id = parseExplainKey(key);
  if (typeof id === 'number') {
    const stored = await reader.blockByHeight(id);
    return { key, kind: 'height', height: id, blockId: stored?.block.id ?? null };
  }
  // If it is no longer in progress, it may have been indexed since the first read.
  const found =
    (await placeInIndex(reader, id)) ?? (await placeInWork(source, id)) ?? (await placeInIndex(reader, id));
  return { key, ...(found ?? { kind: 'unknown', height: null, blockId: null }) };
}

async function placeInIndex(reader: IndexReader, id: Identifier): Promise<Place | undefined> {
  const block = await reader.blockById(id);
  if (block !== undefined) return { kind: 'block', height: block.block.height, blockId: id };
  const [collection] = await reader.collectionPlaces(id, 1);
  const [transaction] = collection === undefined ? await reader.transactionPlaces(id, 1) : [];
  const place = collection ?? transaction;
  if (place === undefined) return undefined;
  const stored = await reader.blockByHeight(place.height);
  const kind = collection === undefined ? 'transaction' : 'collection';
  return { kind, height: place.height, blockId: stored?.block.id ?? null };
}

async function placeInWork(source: HeightWorkSource, id: Identifier): Promise<Place | undefined> {
  const named = await source.naming(id);
  return named && { ...named, blockId: named.kind === 'block' ? id : null };
}
