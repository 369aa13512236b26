import { parseIdentifier } from '../../flow/index.js';
import type { Identifier } from '../../flow/index.js';
import { quoted } from '../../runtime/index.js';
import type { BlockHead, IndexReader, IndexStore } from '../../storage/index.js';
import { ApiError } from '../view/ApiError.js';
import type { ExplainDocument, ExplainStage } from './explanation.js';
import { parseHeight } from '../view/queryParameters.js';
import { awaitsProof, coverageOf, lastReadable, rangeWith } from '../view/indexedRange.js';
import type { IndexedRange } from '../view/indexedRange.js';
import type { HeightWorkSource, PlannedHeight, WorkMoment } from '../view/heightWork.js';

/** Height and block of the lowest place of something, as far as known. */
type Place = Pick<ExplainDocument, 'kind' | 'height' | 'blockId'>;

/** Below all heights there is no work. */
const NO_HEIGHT = -1;

/**
 * Why a height, or the block, collection or transaction with an id, is or is not in the index of a running daemon or a closed
 * store. Expected errors: ApiError (400, a key that is neither; `indexer_silent`), StorageError.
 */
export async function explainDocument(
  reader: IndexReader,
  key: string,
  source: HeightWorkSource,
): Promise<ExplainDocument> {
  const { kind, height, blockId } = await placeOf(reader, parseExplainKey(key), source);
  // Range and work are from the same moment.
  const moment = await source.momentAt(height ?? NO_HEIGHT);
  const { range, daemon } = moment;
  const at = height === null ? undefined : daemon?.work;
  const stage = height === null ? 'unknown_id' : stageOf(height, moment);
  const isIndexed = stage === 'indexed';
  const facts: ExplainDocument = {
    key,
    kind,
    stage,
    summary: '',
    height,
    blockId: blockId ?? moment.durableId ?? at?.blockId ?? null,
    firstIndexed: range.firstIndexed,
    latestIndexed: lastReadable(range),
    head: range.head,
    sealed: range.sealed,
    coverage: coverageOf(range),
    work: isIndexed ? null : (at?.work ?? null),
    holdingUp: isIndexed ? null : (at?.holdingUp ?? null),
    sources: at?.sources ?? null,
    reasons: isIndexed ? [] : (daemon?.reasons ?? []),
  };
  return { ...facts, summary: summaryOf(facts, moment) };
}

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

async function placeOf(
  reader: IndexReader,
  key: number | Identifier,
  source: HeightWorkSource,
): Promise<Place> {
  if (typeof key === 'number') {
    const stored = await reader.blockByHeight(key);
    return { kind: 'height', height: key, blockId: stored?.block.id ?? null };
  }
  const inIndex = await placeInIndex(reader, key);
  if (inIndex !== undefined) return inIndex;
  const named = await source.naming(key);
  if (named !== undefined) return { ...named, blockId: named.kind === 'block' ? key : null };
  // If it is no longer in progress, it may have been indexed since the first read.
  return (await placeInIndex(reader, key)) ?? { kind: 'unknown', height: null, blockId: null };
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

/** Describes a stage in one or two sentences. */
function summaryOf(facts: ExplainDocument, { range, daemon, history: planned }: WorkMoment): string {
  const { stage, coverage, firstIndexed, head, latestIndexed: latest } = facts;
  const window = daemon?.work;
  const what = nameOf(facts);
  switch (stage) {
    case 'indexed':
      return facts.kind === 'height' || facts.kind === 'block'
        ? `${what} is indexed: its block and all of its collections can be read.`
        : `${what} is indexed and can be read.`;
    case 'below_first_indexed':
      return `${what} is below the first height of this store, ${known(coverage[0]?.from ?? firstIndexed)}, and will not be indexed. To index it, plan it: backfill plan --from ${known(facts.height)}.`;
    case 'hole':
      return `${what} is missing between heights that are indexed, and no plan fills it in. To index it, plan it: backfill plan --from ${known(facts.height)}.`;
    case 'backfill':
      return history(planned, what);
    case 'above_head':
      return `${what} is above the finalized head, ${known(head)}: the chain has not reached it, by the head that is reported.`;
    case 'beyond_stop':
      return `${what} is above the stop height, ${known(window?.stopHeight ?? null)}: the daemon does not ask for it.`;
    case 'outside_window':
      return `${what} is above the window, which ends at ${known(window?.upperBound ?? null)}: its turn comes when the heights below it are done. ${gap(facts)}`;
    case 'queued':
      return `${what} is within the window, and its block has not arrived yet${heldUp(facts)}.`;
    case 'fetching':
      return fetching(facts, what);
    case 'committing':
      return `${what} is complete: it waits for its batch, or the one before it, to be written to disk. ${gap(facts)}`;
    case 'waiting_for_gap':
      return `${what} is complete and on disk, and becomes readable once the heights below it are. ${gap(facts)}`;
    case 'awaiting_proof':
      return `${what} is stored, and its finality is not proven yet: proof.finality is proven, so it can be read once certificates of the consensus nodes prove it. ${latest === null ? 'Nothing is proven yet' : `Everything through ${latest} is proven`}; proof.reason of /status says what is missing.`;
    case 'starting':
      return `${what} is not indexed: the daemon has not started indexing, because nobody has reported the head yet.`;
    case 'not_indexed':
      return latest === null
        ? `${what} is not indexed: the store is empty, and no daemon is running to fill it.`
        : `${what} is not indexed: the store ends at ${latest}, and no daemon is running to continue it.`;
    case 'unknown_id':
      return unknown(facts, range);
  }
}

function history(planned: PlannedHeight | undefined, what: string): string {
  const { plan = 0, isPaused = false, range = null } = planned ?? {};
  const is = `${what} is history that plan ${plan} fills in`;
  if (range === null) return isPaused ? `${is}, once it is resumed.` : `${is}; its turn has not come yet.`;
  const { from, to, next, state, failures, reason, waitingFor } = range;
  const where = `its range, ${from} to ${to}, is ${next > from ? `on disk up to ${next - 1}` : 'begun'}`;
  if (state === 'disputed')
    return `${is}: ${where}, and disputed after ${failures} failures: ${reason ?? 'unknown'}. "backfill redrive" runs it again.`;
  if (state === 'failed')
    return `${is}: ${where}, and runs again after a pause, because it failed: ${reason ?? 'unknown'}.`;
  if (state === 'waiting')
    return `${is}: ${where}, and waits${isPaused ? ' until the plan is resumed' : ' for a free slot'}.`;
  return `${is}: ${where}${waitingFor === null ? '' : `; ${waitingFor.message}`}.`;
}

function nameOf({ kind, height, key }: ExplainDocument): string {
  switch (kind) {
    case 'height':
    case 'unknown':
      return `Height ${height ?? key}`;
    case 'block':
      return `This block, of height ${known(height)},`;
    case 'collection':
      return `This collection, of height ${known(height)},`;
    case 'transaction':
      return `This transaction, of height ${known(height)},`;
  }
}

function fetching({ kind, key, work, height, holdingUp }: ExplainDocument, what: string): string {
  const own = holdingUp !== null && holdingUp.height === height ? `; ${holdingUp.message}` : '';
  const missing = work?.missing ?? 0;
  const lacks = `${missing} of ${work?.collections ?? 0} collections missing`;
  if (kind !== 'collection') return `${what} is being fetched: ${lacks}${own}.`;
  const isMissing = work?.missingCollections.some(({ collectionId }) => collectionId === key) === true;
  return isMissing || missing > (work?.missingCollections.length ?? 0)
    ? `${what} is being fetched; its block has ${lacks}.`
    : `${what} has arrived and waits for the others of its block: ${lacks}.`;
}

function gap({ holdingUp, latestIndexed }: ExplainDocument): string {
  if (holdingUp !== null) return `Height ${holdingUp.height} comes first: ${holdingUp.message}.`;
  return latestIndexed === null
    ? 'Nothing can be read yet.'
    : `Everything through ${latestIndexed} can be read.`;
}

function heldUp({ holdingUp }: ExplainDocument): string {
  return holdingUp === null ? '' : `: ${holdingUp.message}`;
}

function unknown(
  { coverage, latestIndexed }: ExplainDocument,
  { awaitsProof: unproven = [] }: IndexedRange,
): string {
  const heights = coverage.map(({ from, to }) => `${from} to ${to}`).join(', ');
  const where =
    latestIndexed === null
      ? 'Nothing is indexed yet, and nothing in progress'
      : `Nothing in heights ${heights}, and nothing in progress,`;
  const unread = unproven.at(-1);
  const stored =
    unread === undefined
      ? ''
      : ` What is stored up to ${unread.to} and not proven final yet is recognised once it is proven.`;
  return `${where} has this ID.${stored} A transaction is recognised only once its collection is here. IDs of system transactions, of results and of events are not indexed.`;
}

function known(height: number | null): string {
  return height === null ? 'unknown' : String(height);
}
