import { parseIdentifier } from '../../flow/index.js';
import type { Identifier } from '../../flow/index.js';
import type { ReadinessReason } from '../../observability/index.js';
import { quoted } from '../../runtime/index.js';
import type { IndexReader, IndexStore } from '../../storage/index.js';
import { ApiError } from '../view/ApiError.js';
import type { ExplainDocument, ExplainStage } from './explanation.js';
import { summaryOf } from './explainSummary.js';
import { parseHeight } from '../view/queryParameters.js';
import { lastReadable } from '../view/statusDocument.js';
import type { IndexedRange } from '../view/statusDocument.js';
import type { HeightWork, WorkSource } from '../view/heightWork.js';

export type ExplainReader = IndexReader & Pick<IndexStore, 'meta' | 'hasHeight' | 'blocksAboveWatermark'>;

/** The daemon around the store; left out where none runs. */
export interface ExplainingDaemon {
  readonly work: WorkSource;
  readonly reasons: readonly ReadinessReason[];
}

interface Subject {
  readonly key: string;
  readonly kind: ExplainDocument['kind'];
  /** Height and block of the lowest place, as far as known. */
  readonly height: number | null;
  readonly blockId: Identifier | null;
}

/**
 * Why a height, or the block, collection or transaction of an id, is or is not in the index. Serves a running daemon and a
 * closed store alike. `rangeOf`: the range at the moment of asking. Expected errors: ApiError (400, a key that is neither),
 * StorageError.
 */
export async function explainDocument(
  reader: ExplainReader,
  key: string,
  rangeOf: () => IndexedRange,
  daemon?: ExplainingDaemon,
): Promise<ExplainDocument> {
  const subject = await subjectOf(reader, key, daemon?.work);
  // From here on nothing is waited for: range and work are of one moment.
  const range = rangeOf();
  const { kind, height } = subject;
  const at = height === null ? undefined : daemon?.work.workAt(height);
  const stage = height === null ? 'unknown_id' : stageOf(height, range, { reader, at, daemon });
  const work = stage === 'indexed' ? null : (at?.work ?? null);
  const blockId = subject.blockId ?? at?.blockId ?? null;
  const holdingUp = stage === 'indexed' ? null : (at?.holdingUp ?? null);
  const reasons = stage === 'indexed' ? [] : (daemon?.reasons ?? []);
  const facts = { kind, stage, height, range, work, holdingUp, window: at, key };
  return {
    ...{ key, kind, stage, summary: summaryOf(facts), height, blockId },
    ...{ ...range, latestIndexed: lastReadable(range) },
    ...{ work, holdingUp, sources: at?.sources ?? null, reasons },
  };
}

function stageOf(
  height: number,
  { firstIndexed, latestIndexed, head }: IndexedRange,
  { reader, at, daemon }: { reader: ExplainReader; at: HeightWork | undefined; daemon: object | undefined },
): ExplainStage {
  if (firstIndexed !== null && height < firstIndexed) return 'below_first_indexed';
  if (firstIndexed !== null && latestIndexed !== null && height <= latestIndexed) return 'indexed';
  if (at === undefined) {
    if (reader.hasHeight(height)) return 'waiting_for_gap';
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

/** A height, or what may be the id of anything. Expected errors: ApiError (400). */
export function parseExplainKey(key: string): number | Identifier {
  const parsed = parseHeight(key) ?? parseIdentifier(key);
  if (parsed !== undefined) return parsed;
  const message = `expected a height or an ID of 64 hexadecimal digits, got ${quoted(key)}`;
  throw new ApiError(400, 'malformed_id', message);
}

async function subjectOf(reader: ExplainReader, key: string, work: WorkSource | undefined): Promise<Subject> {
  const id = parseExplainKey(key);
  if (typeof id === 'number') {
    const height = id;
    const stored = await reader.blockByHeight(height);
    const above = reader.blocksAboveWatermark().find((head) => head.height === height);
    return { key, kind: 'height', height, blockId: stored?.block.id ?? above?.id ?? null };
  }
  // What is not in work any more may have been indexed since the first look.
  const found =
    (await placeInIndex(reader, id)) ?? placeInWork(reader, id, work) ?? (await placeInIndex(reader, id));
  return { key, ...(found ?? { kind: 'unknown', height: null, blockId: null }) };
}

async function placeInIndex(
  reader: ExplainReader,
  id: Identifier,
): Promise<Omit<Subject, 'key'> | undefined> {
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

function placeInWork(
  reader: ExplainReader,
  id: Identifier,
  work: WorkSource | undefined,
): Omit<Subject, 'key'> | undefined {
  const above = reader.blocksAboveWatermark().find((head) => head.id === id);
  if (above !== undefined) return { kind: 'block', height: above.height, blockId: id };
  const named = work?.naming(id);
  return named && { ...named, blockId: named.kind === 'block' ? id : null };
}
