import { parseIdentifier, type Identifier } from '../../flow/index.js';
import { quoted } from '../../runtime/index.js';
import type { BlockHead, IndexReader, IndexStore } from '../../storage/index.js';
import { ApiError, heightsInWords, isHealing } from '../view/ApiError.js';
import type {
  ExplainDocument,
  ExplainStage,
  HeightWork,
  HeightWorkSource,
  PlannedHeight,
  WorkMoment,
} from './explanation.js';
import { parseHeight } from '../view/queryParameters.js';
import { awaitsProof, coverageOf, lastReadable, rangeWith, type IndexedRange } from '../view/indexedRange.js';

/** Height and block of the lowest place, as far as known. */
type Place = Pick<ExplainDocument, 'kind' | 'height' | 'blockId'>;
type Asked = Pick<ExplainDocument, 'key' | 'kind' | 'height'>;

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
  const [stage, summary] = standingOf({ key, kind, height }, at, moment);
  const isIndexed = stage === 'indexed';
  return {
    key,
    kind,
    stage,
    summary,
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
}

/** The stage of the requested item, and one or two sentences about it. */
function standingOf(
  asked: Asked,
  at: HeightWork | undefined,
  { range, durableId, daemon, history }: WorkMoment,
): readonly [ExplainStage, string] {
  const { kind, height } = asked;
  const { firstIndexed, latestIndexed, head } = range;
  const latest = lastReadable(range);
  const what = nameOf(asked);
  if (height === null) return ['unknown_id', unknown(range)];
  const isShown = firstIndexed !== null && latestIndexed !== null;
  if (isShown && rangeWith(height, range) !== undefined) {
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
  if ((isShown && height <= latestIndexed) || (firstIndexed !== null && height < firstIndexed)) {
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
  const holdingUp = at?.holdingUp ?? null;
  const gap = holdingUp === null ? through : `Height ${holdingUp.height} comes first: ${holdingUp.message}.`;
  const durable = [
    'waiting_for_gap',
    `${what} is complete and on disk, and becomes readable once the heights below it are. ${gap}`,
  ] as const;
  const starting = [
    'starting',
    `${what} is not indexed: the daemon has not started indexing, and its reasons not to be ready say why.`,
  ] as const;
  if (at === undefined) {
    if (durableId !== undefined) return durable;
    if (daemon !== undefined) return starting;
    const store =
      latest === null
        ? 'the store is empty, and no daemon is running to fill it'
        : `the store ends at ${latest}, and no daemon is running to continue it`;
    return ['not_indexed', `${what} is not indexed: ${store}.`];
  }
  const { stage, stopHeight, upperBound } = at;
  if (stage === 'durable') return durable;
  if (stage === 'committing')
    return [
      stage,
      `${what} is complete: it waits for its batch, or the one before it, to be written to disk. ${gap}`,
    ];
  if (stage === 'collecting') return ['fetching', fetchingWords(asked, what, at)];
  if (stopHeight !== null && height > stopHeight)
    return [
      'beyond_stop',
      `${what} is above the stop height, ${stopHeight}: the daemon does not ask for it.`,
    ];
  if (head === null) return starting;
  if (height > head)
    return [
      'above_head',
      `${what} is above the finalized head, ${head}: the chain has not reached it, as far as the access nodes know.`,
    ];
  if (stage === 'outside')
    return [
      'outside_window',
      `${what} is above the window, which ends at ${upperBound}: its turn comes when the heights below it are done. ${gap}`,
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

function nameOf({ kind, height, key }: Asked): string {
  return kind === 'height' || kind === 'unknown'
    ? `Height ${height ?? key}`
    : `This ${kind}, of height ${height ?? 'unknown'},`;
}

function fetchingWords({ kind, key, height }: Asked, what: string, { work, holdingUp }: HeightWork): string {
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
