import { setImmediate } from 'node:timers/promises';
import { MAX_PAGE_HEIGHTS, PAGE_BYTES, type StatusDocument, type StoredLine } from '../../api/index.js';
import { placeOfStore } from '../../app/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { decodeBlockMessage, VerificationMemory, WireError } from '../../flow/index.js';
import { formatCount } from '../../observability/index.js';
import { abortReason, OperatorError, programVersion, sleep, systemClock } from '../../runtime/index.js';
import { joined, rangesInWords, verifiedBlock, without } from '../../storage/index.js';
import type { BlockEntry, HeightRange, WholeBlock } from '../../storage/index.js';
import type { ExportFlags } from '../arguments/flags.js';
import { PROGRAM } from '../arguments/parse.js';
import { wrongUse } from '../command.js';
import { askDaemon, bodyOf, daemonStatus, noDaemon, unserved } from '../client/askDaemon.js';
import { refusalOf } from '../client/documentFrom.js';
import { ENDLESS, type ExportProgress } from './exportProgress.js';

/** Name and version of the program that writes the files, the same for every source. */
export const madeBy = `${PROGRAM} ${programVersion}`;

/** Pause before another try, for a height that is not indexed yet or a daemon that does not answer. */
const LOOK_AGAIN_MS = 500;
/** Misses in a row before it gives up: readers may be away for a second or two, and a suspended export finds it is cut off. */
const MAX_MISSES = 6;
const BUSY_MS = 1_000;
const READ_HEIGHTS = 16;

type Readable = Pick<StatusDocument, 'firstIndexed' | 'latestIndexed' | 'coverage' | 'healing'>;

/** A source of blocks. Every source gives the same ones. */
export interface ExportSource {
  readonly name: string;
  readonly chainId: string;
  /** The currently readable heights, ascending, and where an export begins; with `follow` there may be none. Asked once. */
  range(): Promise<Readonly<{ first: number; latest: number; ranges: readonly HeightRange[] }>>;
  /** A page of blocks with all their bytes, which are not hashed: at least the one at `from`, none above `to`. */
  page(range: HeightRange): Promise<readonly StoredBlock[]>;
  close?(): Promise<void>;
}

/** A block with its full collections, in guarantee order. */
type StoredBlock = Pick<WholeBlock, 'block' | 'bodies'>;

export interface ExportParts {
  readonly source: ExportSource;
  readonly progress: ExportProgress;
  readonly signal: AbortSignal;
}

/**
 * Opens the configured daemon, else its store, which does not know what is proven. `follow` waits for heights that are not there
 * yet, and for a daemon that does not answer. Expected errors, also of the source: OperatorError (`no_daemon`, `not_found`,
 * `storage`); the signal's abort reason.
 */
export async function openExportSource(
  loaded: LoadedConfig,
  { finality, follow }: Pick<ExportFlags, 'finality' | 'follow'>,
  { progress, signal }: Pick<ExportParts, 'progress' | 'signal'>,
): Promise<ExportSource> {
  const status = () => daemonStatus(loaded, { needs: ['chainId', 'coverage', 'healing'] });
  const found = await status();
  if (found === undefined) {
    if (follow || finality === 'proven') throw await noDaemon(loaded);
    return storeSource(loaded, signal);
  }
  /** After a miss, another process may answer: a restarted daemon may listen elsewhere. */
  let misses = 0;
  const lookAgain = async (error?: OperatorError): Promise<void> => {
    if (error === undefined) misses += 1;
    if (!follow && (error ?? misses > MAX_MISSES)) throw error ?? (await noDaemon(loaded));
    progress.waits(error === undefined ? 'The daemon does not answer' : undefined);
    await sleep(systemClock, LOOK_AGAIN_MS, signal);
  };
  const ask = ({ from, to }: HeightRange, how: { readonly isKnown?: boolean; readonly isLarge?: boolean }) =>
    askDaemon(loaded, `/export?from=${from}&to=${to}&form=stored&finality=${finality}`, { ...how, signal });
  const readable = async (now?: Readable): Promise<Readable | undefined> => {
    if (finality === 'reported') return now ?? status();
    // The refusal of a height above all others names those that are proven.
    const answer = await ask({ from: ENDLESS, to: ENDLESS }, {});
    if (answer?.status !== 404) return undefined;
    return { firstIndexed: null, coverage: [], healing: [], ...Object(bodyOf(answer)) } as Readable;
  };
  return {
    name: 'the running daemon',
    chainId: found.chainId,
    range: async () => {
      // Where nothing is proven yet, the first height that will be is not known.
      const waits = follow && finality === 'reported';
      for (let state = await readable(found); ; state = await readable()) {
        const { firstIndexed: first = null, latestIndexed = null } = state ?? {};
        if (state !== undefined && first !== null && (waits || latestIndexed !== null)) {
          // Healing heights are readable again soon: their pages are awaited.
          const ranges = joined([...state.coverage, ...state.healing]);
          return { first, latest: latestIndexed ?? first - 1, ranges };
        }
        await lookAgain(state && nothingThere(finality));
      }
    },
    page: async (heights) => {
      for (;;) {
        const answer = await ask(heights, { isKnown: misses === 0, isLarge: true });
        if (signal.aborted) throw abortReason(signal);
        if (answer === undefined) {
          await lookAgain();
          continue;
        }
        misses = 0;
        const refused = answer.status === 200 ? undefined : refusalOf(answer.status, bodyOf(answer));
        progress.waits(answer.status === 503 ? `The daemon says "${refused?.error.message}"` : undefined);
        if (refused === undefined) return storedBlocksIn(answer.bytes);
        const { reason, error } = refused;
        if (answer.status === 429 || answer.status === 503) await sleep(systemClock, BUSY_MS, signal);
        else if (reason === 'not_yet_indexed') await lookAgain(error);
        else throw error;
      }
    },
  };
}

/** Expected errors: OperatorError when these are not lines of stored blocks. */
function storedBlocksIn(bytes: Buffer): StoredBlock[] {
  try {
    return bytes
      .toString('utf8')
      .trimEnd()
      .split('\n')
      .map((text) => {
        const { block, collections } = JSON.parse(text) as Partial<StoredLine>;
        if (block === undefined || collections === undefined) throw new SyntaxError('not a line of stored');
        const bodies = collections.map((each) => Buffer.from(each, 'base64'));
        return { block: decodeBlockMessage(Buffer.from(block, 'base64')), bodies };
      });
  } catch (error) {
    if (!(error instanceof WireError || error instanceof SyntaxError)) throw error;
    // An older one ignores the query parameter `form`.
    const message = 'The daemon is an older version that cannot send stored blocks. Upgrade it first.';
    throw new OperatorError('no_daemon', message);
  }
}

async function storeSource(loaded: LoadedConfig, signal: AbortSignal): Promise<ExportSource> {
  const store = await unserved(loaded, ({ openStoreReadOnly }) => openStoreReadOnly(loaded.config));
  return {
    name: `the store ${placeOfStore(loaded.config)}`,
    chainId: loaded.config.chainId,
    range: () => {
      const ranges = store.coverage();
      const [lowest] = ranges;
      if (lowest === undefined) return Promise.reject(nothingThere('reported'));
      return Promise.resolve({ first: lowest.from, latest: store.latestIndexedHeight(), ranges });
    },
    page: async ({ from, to }) => {
      const last = Math.min(to, from + MAX_PAGE_HEIGHTS - 1);
      const page: StoredBlock[] = [];
      for (let next = from, bytes = 0; next <= last && bytes < PAGE_BYTES; next += READ_HEIGHTS) {
        const heights = Array.from({ length: Math.min(READ_HEIGHTS, last - next + 1) }, (_, at) => next + at);
        const found = await Promise.all(heights.map((height) => store.wholeBlock(height)));
        if (signal.aborted) throw abortReason(signal);
        for (const [at, whole] of found.entries()) {
          if (whole === undefined)
            throw new OperatorError('not_found', `Height ${next + at} is not indexed.`);
          page.push(whole);
          bytes += whole.bodies.reduce((sum, { length }) => sum + length, 0);
        }
      }
      return page;
    },
    close: () => store.close(),
  };
}

/** What heights must be to be exported, in messages. */
const words = { reported: 'indexed', proven: 'proven' } as const;

function nothingThere(finality: ExportFlags['finality']): OperatorError {
  return new OperatorError('not_found', `Nothing is ${words[finality]} yet: there is nothing to export.`);
}

/**
 * The blocks of a range, a page at a time, each collection hashed; `before` is the block below them, where it is known. While one
 * page is used, only the next is fetched, however slow the reader. Expected errors: those of the source; OperatorError `foreign`.
 */
export async function* pagesOf(
  source: ExportSource,
  { from, to }: HeightRange,
  before?: { readonly height: number; readonly id: string },
): AsyncGenerator<readonly BlockEntry[]> {
  const memory = new VerificationMemory();
  const ahead = (next: number): Promise<readonly StoredBlock[]> | undefined => {
    if (next > to) return undefined;
    const page = source.page({ from: next, to });
    // It may fail while the page before it is still being used.
    page.catch(() => undefined);
    return page;
  };
  let last = before;
  for (let asked = ahead(from); asked !== undefined;) {
    const page = await asked;
    for (const { block } of page) {
      // The root block of a spork need not name the block below it as its parent; any other is of another chain.
      if (last !== undefined && block.parentId !== last.id) await checkSame(last, source);
      last = block;
    }
    asked = ahead((last?.height ?? to) + 1);
    // Lets that read start first.
    await setImmediate();
    yield page.map((stored) => verifiedBlock(stored, memory));
  }
}

/** The heights to export; `held`: those of the files that are needed. Expected errors: of the source; OperatorError `not_found`. */
export async function exportRange(
  source: ExportSource,
  asked: Pick<ExportFlags, 'from' | 'to' | 'finality' | 'follow'>,
  held?: HeightRange,
): Promise<HeightRange> {
  const { first, latest, ranges } = await source.range();
  const from = held?.from ?? asked.from ?? first;
  const to = asked.to ?? (asked.follow ? ENDLESS : latest);
  const lowest = Math.min(from, to);
  const word = words[asked.finality];
  const highest = Math.max(held?.to ?? from, to);
  const outside =
    lowest < (ranges[0]?.from ?? first)
      ? `Height ${lowest} is below the first ${word} height.`
      : asked.follow || highest <= latest
        ? undefined
        : held !== undefined && held.to > latest
          ? `The export has height ${held.to}, which the index does not have (again): it is of another chain, or was rewound. Begin a new export, take back what differs (docs/export.md), or wait for that height with --follow.`
          : `Height ${highest} is not yet ${word}: lower ${from > latest ? '--from' : '--to'}, or wait for it with --follow.`;
  const there = `The ${word} heights are ${rangesInWords(ranges)}`;
  if (outside !== undefined) throw new OperatorError('not_found', `${outside} ${there}.`);
  const holes = without([{ from, to: Math.min(to, latest) }], ranges);
  if (holes.length === 0) return { from, to };
  const message = `Between --from and --to, nothing is ${word} at ${rangesInWords(holes)}. ${there}: choose heights of one range, or fill in the hole first.`;
  throw new OperatorError('not_found', message);
}

/** Expected errors: those of the source; OperatorError `foreign` when it has another block at this height. */
export async function checkSame(
  { height, id }: { readonly height: number; readonly id: string },
  source: ExportSource,
): Promise<void> {
  const [found] = await source.page({ from: height, to: height });
  if (found?.block.id === id) return;
  const message = `The export holds block ${id} at height ${height}, but the index has another block there: it is of another chain, or was rewound. Begin a new export, or take back what differs (docs/export.md).`;
  throw new OperatorError('foreign', message);
}

/** Expected errors: OperatorError `usage` when what is written goes beyond `--to` already. */
export function checkNotBeyond(name: string, reached: number, to: number | null): void {
  if (to === null || reached <= to) return;
  throw wrongUse(
    `${name} goes to height ${reached} already, which is above --to ${to}. Raise --to, or leave it out.`,
  );
}

export function inWords(all: HeightRange & Readonly<Record<'blocks' | 'transactions', number>>): string {
  const { blocks, from, to, transactions } = all;
  if (blocks === 0) return 'no block';
  return `heights ${from} to ${to}: ${formatCount(blocks)} blocks, ${formatCount(transactions)} transactions`;
}
