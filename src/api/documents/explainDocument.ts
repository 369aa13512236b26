import type { Identifier } from '../../flow/index.js';
import type { BlockHead, IndexReader, IndexStore } from '../../storage/index.js';
import { heightsInWords, isHealing } from '../view/ApiError.js';
import type { ExplainDocument, ExplainStage, HeightWork, HeightWorkSource } from './explanation.js';
import type { PlannedHeight, WorkMoment } from './explanation.js';
import { parseBlockKey } from '../view/queryParameters.js';
import { awaitsProof, coverageOf, lastReadable, rangeWith, type IndexedRange } from '../view/indexedRange.js';

/** The lowest place of what was asked for, and the block there, as far as known. */
type Place = Pick<ExplainDocument, 'kind' | 'height'> & { readonly blockId?: Identifier | undefined };

/**
 * Why a height, or the block, collection or transaction with an id, is or is not in the index of a running daemon or a closed
 * store. Expected errors: ApiError (400, a key that is neither; `indexer_silent`), StorageError.
 */
export async function explainDocument(
  reader: IndexReader,
  key: string,
  source: HeightWorkSource,
): Promise<ExplainDocument> {
  const asked = parseExplainKey(key);
  let found = await placeOf(reader, asked);
  let moment = await source.momentAt(found?.height ?? asked);
  // If it is no longer in progress, it may have been indexed since the first read.
  if (found === undefined && moment.named === undefined) {
    found = await placeOf(reader, asked);
    if (found !== undefined) moment = await source.momentAt(found.height);
  }
  const place: Place = found ?? moment.named ?? { kind: 'unknown', height: null };
  // Range and work are from the same moment.
  const { daemon, durableId, range } = moment;
  const at = place.height === null ? undefined : daemon?.work;
  const [stage, summary] = standingOf(key, place, moment);
  const isIndexed = stage === 'indexed';
  return {
    key,
    kind: place.kind,
    stage,
    summary,
    height: place.height,
    blockId: place.blockId ?? durableId ?? at?.blockId ?? null,
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
}

/** The stage of the requested item, and one or two sentences about it. */
function standingOf(
  key: string,
  { kind, height }: Place,
  { range, durableId, daemon, history }: WorkMoment,
): readonly [ExplainStage, string] {
  const { firstIndexed, latestIndexed, head } = range;
  const latest = lastReadable(range);
  if (height === null) return ['unknown_id', unknown(range)];
  const what = kind === 'height' ? `Height ${height}` : `This ${kind}, of height ${height},`;
  if (rangeWith(height, range) !== undefined) {
    const isWhole = kind === 'height' || kind === 'block';
    const can = isWhole ? ': its block and all of its collections can be read.' : ' and can be read.';
    return ['indexed', `${what} is indexed${can}`];
  }
  if (awaitsProof(height, range)) {
    const through = latest === null ? 'Nothing is proven yet' : `Everything through ${latest} is proven`;
    return [
      'awaiting_proof',
      `${what} is stored, and its finality is not proven yet: proof.finality is proven, so it can be read once certificates of the consensus nodes prove it. ${through}; proof.reason of /status says what is missing.`,
    ];
  }
  if (height <= (latestIndexed ?? -1)) {
    if (history !== undefined) {
      const isDamaged = isHealing(height, range);
      const [is, does] = isDamaged ? ['damaged, and', 'fetches it again'] : ['history that', 'fills in'];
      const idle = daemon === undefined ? 'no daemon is running to do that' : 'its turn has not come yet';
      return ['backfill', historyWords(history, `${what} is ${is} plan ${history.plan} ${does}`, idle)];
    }
    const first = coverageOf(range)[0]?.from;
    const advice = `To index it, plan it: backfill plan --from ${height}.`;
    return height < (first ?? Infinity)
      ? [
          'below_first_indexed',
          `${what} is below the first height of this store, ${first ?? firstIndexed}, and will not be indexed. ${advice}`,
        ]
      : ['hole', `${what} is missing between heights that are indexed, and no plan fills it in. ${advice}`];
  }
  const through = latest === null ? 'Nothing can be read yet.' : `Everything through ${latest} can be read.`;
  const at = daemon?.work;
  const holdingUp = at?.holdingUp ?? null;
  const gap = holdingUp === null ? through : `Height ${holdingUp.height} comes first: ${holdingUp.message}.`;
  if (at === undefined ? durableId !== undefined : at.stage === 'durable')
    return [
      'waiting_for_gap',
      `${what} is complete and on disk, and becomes readable once the heights below it are. ${gap}`,
    ];
  if (daemon === undefined) {
    const store =
      latest === null
        ? 'the store is empty, and no daemon is running to fill it'
        : `the store ends at ${latest}, and no daemon is running to continue it`;
    return ['not_indexed', `${what} is not indexed: ${store}.`];
  }
  if (at?.stage === 'committing')
    return [
      'committing',
      `${what} is complete: it waits for its batch, or the one before it, to be written to disk. ${gap}`,
    ];
  if (at?.stage === 'collecting') return ['fetching', fetchingWords(key, { kind, height }, what, at)];
  const stopHeight = at?.stopHeight ?? Infinity;
  if (height > stopHeight)
    return [
      'beyond_stop',
      `${what} is above the stop height, ${stopHeight}: the daemon does not ask for it.`,
    ];
  if (at === undefined || head === null)
    return [
      'starting',
      `${what} is not indexed: the daemon has not started indexing, and its reasons not to be ready say why.`,
    ];
  if (height > head)
    return [
      'above_head',
      `${what} is above the finalized head, ${head}: the chain has not reached it, as far as the access nodes know.`,
    ];
  if (at.stage === 'outside')
    return [
      'outside_window',
      `${what} is above the window, which ends at ${at.upperBound}: its turn comes when the heights below it are done. ${gap}`,
    ];
  const why = holdingUp === null ? '' : `: ${holdingUp.message}`;
  return ['queued', `${what} is within the window, and its block has not arrived yet${why}.`];
}

/** A closed store as a source: it knows the blocks above the watermark. */
export function workOfStore(
  store: Pick<IndexStore, 'blocksAboveWatermark'>,
  range: () => IndexedRange,
  historyAt: (height: number) => PlannedHeight | undefined = () => undefined,
): HeightWorkSource {
  return {
    momentAt: (key) => {
      const above = blockAbove(store, key);
      return {
        range: range(),
        named: above && { kind: 'block', height: above.height },
        durableId: above?.id,
        daemon: undefined,
        history: typeof key === 'number' ? historyAt(key) : undefined,
      };
    },
  };
}

/** A block that is durable above the watermark, by its height or id. */
export function blockAbove(
  store: Pick<IndexStore, 'blocksAboveWatermark'>,
  key: number | Identifier,
): BlockHead | undefined {
  return store.blocksAboveWatermark().find(({ height, id }) => height === key || id === key);
}

/** A height, or the id of anything. Expected errors: ApiError (400). */
export function parseExplainKey(key: string): number | Identifier {
  return parseBlockKey(key, 'an ID');
}

async function placeOf(reader: IndexReader, key: number | Identifier) {
  if (typeof key === 'number') {
    const stored = await reader.blockByHeight(key);
    return { kind: 'height', height: key, blockId: stored?.block.id } as const;
  }
  const block = await reader.blockById(key);
  if (block !== undefined) return { kind: 'block', height: block.block.height, blockId: key } as const;
  for (const kind of ['collection', 'transaction'] as const) {
    const [place] = await reader.places(kind, key, 1);
    const stored = place && (await reader.blockByHeight(place.height));
    if (place !== undefined) return { kind, height: place.height, blockId: stored?.block.id } as const;
  }
  return undefined;
}

function historyWords({ isPaused, range, unserved }: PlannedHeight, is: string, idle: string): string {
  if (range === null) return isPaused ? `${is}, once it is resumed.` : `${is}; ${unserved ?? idle}.`;
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

function fetchingWords(
  key: string,
  { kind, height }: Place,
  what: string,
  { work, holdingUp }: HeightWork,
): string {
  const { missing = 0, collections = 0, missingCollections = [] } = work ?? {};
  const lacks = `${missing} of ${collections} collections missing`;
  const own = holdingUp !== null && holdingUp.height === height ? `; ${holdingUp.message}` : '';
  if (kind !== 'collection') return `${what} is being fetched: ${lacks}${own}.`;
  const isMissing = missingCollections.some(({ collectionId }) => collectionId === key);
  return isMissing || missing > missingCollections.length
    ? `${what} is being fetched; its block has ${lacks}.`
    : `${what} has arrived and waits for the others of its block: ${lacks}.`;
}

function unknown(range: IndexedRange): string {
  const heights = heightsInWords(range);
  const where =
    heights === ''
      ? 'Nothing is indexed yet, and nothing in progress'
      : `Nothing in heights ${heights}, and nothing in progress,`;
  const unread = range.awaitsProof?.at(-1);
  const stored =
    unread === undefined
      ? ''
      : ` What is stored up to ${unread.to} and not proven final yet is recognised once it is proven.`;
  const damaged = range.healing?.length ? ' What was damaged is recognised once it was fetched again.' : '';
  return `${where} has this ID.${stored}${damaged} A transaction is recognised only once its collection is here. IDs of system transactions, of results and of events are not indexed.`;
}
