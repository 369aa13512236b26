import { exportPage, MAX_PAGE_HEIGHTS, PAGE_BYTES } from '../../api/index.js';
import type { ExportRange, StoredLine } from '../../api/index.js';
import { loadStores, placeOfStore } from '../../app/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { decodeBlockMessage, VerificationMemory, WireError } from '../../flow/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import { abortReason, OperatorError, programVersion, sleep, systemClock } from '../../runtime/index.js';
import { missingIn, rangesInWords, verifiedBlock } from '../../storage/index.js';
import type { BlockEntry, HeightRange, IndexReader, WholeBlock } from '../../storage/index.js';
import type { ExportFlags } from '../arguments/flags.js';
import { PROGRAM } from '../arguments/parse.js';
import { wrongUse } from '../command.js';
import { findDaemon, jsonIn, namesDaemonAddress, noDaemon } from '../client/findDaemon.js';
import type { FoundDaemon } from '../client/findDaemon.js';
import { refusalOf } from '../client/documentFrom.js';
import { ENDLESS } from './exportProgress.js';
import type { ExportProgress } from './exportProgress.js';
import { firstBlockOf } from './tallyExport.js';
import type { BlockLine } from './tallyExport.js';

/** An older daemon ignores the query parameter `form`. */
const OLDER_DAEMON = 'The daemon is an older version that cannot send stored blocks. Upgrade it first.';

/**
 * Parses a daemon's answer to `/export` with `form=stored`: each block with its full collections, in guarantee order, which are
 * not verified. Expected errors: OperatorError when it is something else.
 */
function storedPageOf(
  bytes: Buffer,
): readonly { readonly block: FinalizedBlock; readonly bodies: Buffer[] }[] {
  const lines = bytes.toString('utf8').trimEnd().split('\n');
  try {
    return lines.map((text) => {
      const { block, collections, kind } = JSON.parse(text) as Partial<StoredLine>;
      if (kind === undefined || block === undefined || collections === undefined)
        throw new SyntaxError('not a line of stored');
      const bodies = collections.map((each) => Buffer.from(each, 'base64'));
      return { block: decodeBlockMessage(Buffer.from(block, 'base64')), bodies };
    });
  } catch (error) {
    if (!(error instanceof WireError || error instanceof SyntaxError)) throw error;
    throw new OperatorError('no_daemon', OLDER_DAEMON);
  }
}

/** Before looking again for a height that is not indexed yet, or for a daemon that does not answer. */
const LOOK_AGAIN_MS = 500;
/** Before asking a busy daemon again. */
const BUSY_MS = 1_000;
/** Heights read from a store at once. */
const READ_HEIGHTS = 16;

/** A source of blocks and their lines. Every source gives the same bytes. */
export interface ExportSource {
  /** For people. */
  readonly name: string;
  readonly chainId: string;
  /** Name and version of the program that makes the lines. */
  readonly program: string;
  /** The currently readable heights; with `follow` there may be none. Asked once. */
  range(): Promise<ReadableHeights>;
  /** Whole blocks from `from` on, none above `to`. */
  page(range: ExportRange): Promise<Buffer>;
  /** The same with all their bytes, every collection hashed here. */
  blocks(range: ExportRange): Promise<readonly BlockEntry[]>;
  close(): Promise<void>;
}

/** From the lowest to the highest of all ranges; `latest` is below `first` where there are none. */
export interface ReadableHeights {
  readonly first: number;
  readonly latest: number;
  /** Ascending. */
  readonly ranges: readonly HeightRange[];
}

/** What every export works with. */
export interface ExportParts {
  readonly source: ExportSource;
  readonly progress: ExportProgress;
  readonly signal: AbortSignal;
}
type Watched = Omit<ExportParts, 'source'>;

/**
 * Opens the configured daemon, else its store. `follow` waits for heights that are not indexed yet, and for a daemon that does
 * not answer. Expected errors, also of the source: OperatorError (`no_daemon`
 * when one is needed; `not_found`; `storage`; those of `openStoreReadOnly`); the signal's abort reason.
 */
export async function openExportSource(
  loaded: LoadedConfig,
  follow: boolean,
  watched: Watched,
): Promise<ExportSource> {
  const found = await findDaemon(loaded);
  if (found !== undefined) return daemonSource(loaded, follow, watched, found);
  if (follow || namesDaemonAddress(loaded)) throw noDaemon(loaded);
  return storeSource(loaded, watched.signal);
}

/** After a restart the daemon may listen elsewhere, so we look it up again whenever it does not answer. */
function daemonSource(
  loaded: LoadedConfig,
  follow: boolean,
  { signal, progress }: Watched,
  found: FoundDaemon,
): ExportSource {
  let daemon: FoundDaemon | undefined = found;
  const lookAgain = async (error: OperatorError): Promise<void> => {
    if (!follow) throw error;
    progress.answers(daemon !== undefined);
    await sleep(systemClock, LOOK_AGAIN_MS, signal);
  };
  const read = async ({ from, to }: ExportRange, form: string): Promise<Buffer> => {
    for (;;) {
      daemon ??= await findDaemon(loaded);
      const answer = daemon && (await daemon.read(`/export?from=${from}&to=${to}&form=${form}`, signal));
      if (signal.aborted) throw abortReason(signal);
      if (answer === undefined) {
        daemon = undefined;
        await lookAgain(noDaemon(loaded));
        continue;
      }
      progress.answers(true);
      if (answer.status === 200) return answer.bytes;
      const { reason, error } = refusalOf(answer.status, jsonIn(answer));
      if (answer.status === 429 || answer.status === 503) await sleep(systemClock, BUSY_MS, signal);
      else if (reason === 'not_yet_indexed') await lookAgain(error);
      else throw error;
    }
  };
  const memory = new VerificationMemory();
  return {
    name: 'the running daemon',
    chainId: found.status.chainId,
    program: `${PROGRAM} ${found.status.version}`,
    range: async () => {
      for (;;) {
        const { firstIndexed: first = null, latestIndexed = null } = daemon?.status ?? {};
        if (first !== null && (follow || latestIndexed !== null)) {
          const latest = latestIndexed ?? first - 1;
          return { first, latest, ranges: latest < first ? [] : [{ from: first, to: latest }] };
        }
        await lookAgain(daemon === undefined ? noDaemon(loaded) : nothingIndexed());
        daemon = await findDaemon(loaded);
      }
    },
    page: (range) => read(range, 'documents'),
    blocks: async (range) => {
      const blocks = storedPageOf(await read(range, 'stored'));
      return blocks.map(({ block, bodies }) => verifiedBlock(block, bodies, memory));
    },
    close: () => Promise.resolve(),
  };
}

async function storeSource({ config }: LoadedConfig, signal: AbortSignal): Promise<ExportSource> {
  const { openStoreReadOnly } = await loadStores();
  const store = await openStoreReadOnly(config);
  const memory = new VerificationMemory();
  return {
    name: `the store ${placeOfStore(config)}`,
    chainId: config.chainId,
    program: `${PROGRAM} ${programVersion()}`,
    range: () => {
      const ranges = store.coverage();
      const [lowest] = ranges;
      if (lowest === undefined) return Promise.reject(nothingIndexed());
      return Promise.resolve({ first: lowest.from, latest: store.latestIndexedHeight(), ranges });
    },
    page: async (range) => {
      // Lets signals arrive.
      await sleep(systemClock, 0, signal);
      const lines = await exportPage(store, range);
      if (lines !== '') return Buffer.from(lines);
      throw notIndexed(range.from);
    },
    blocks: async ({ from, to }) => {
      const entries: BlockEntry[] = [];
      const last = Math.min(to, from + MAX_PAGE_HEIGHTS - 1);
      for (let bytes = 0; bytes < PAGE_BYTES;) {
        const next = from + entries.length;
        const found = await wholeBlocks(store, { from: next, to: Math.min(last, next + READ_HEIGHTS - 1) });
        if (signal.aborted) throw abortReason(signal);
        if (found.length === 0) break;
        for (const { block, collections } of found) {
          const bodies = collections.map(({ encoded }) => encoded);
          entries.push(verifiedBlock(block, bodies, memory));
          bytes += bodies.reduce((sum, { length }) => sum + length, 0);
        }
      }
      if (entries.length === 0) throw notIndexed(from);
      return entries;
    },
    close: () => store.close(),
  };
}

/** Reads the blocks concurrently, and returns those below the first that is missing. */
async function wholeBlocks(reader: IndexReader, { from, to }: ExportRange): Promise<WholeBlock[]> {
  const heights = Array.from({ length: Math.max(0, to - from + 1) }, (_, index) => from + index);
  const blocks = await Promise.all(heights.map((height) => reader.wholeBlock(height)));
  const end = blocks.indexOf(undefined);
  return blocks.slice(0, end === -1 ? blocks.length : end).filter((block) => block !== undefined);
}

function notIndexed(height: number): OperatorError {
  return new OperatorError('not_found', `Height ${height} is not indexed.`);
}

function nothingIndexed(): OperatorError {
  return new OperatorError('not_found', 'Nothing is indexed yet: there is nothing to export.');
}

/** The heights to export. Expected errors: those of the source; OperatorError `not_found`. */
export async function exportRange(
  source: ExportSource,
  asked: Pick<ExportFlags, 'from' | 'to' | 'follow'>,
): Promise<HeightRange> {
  const { first, latest, ranges } = await source.range();
  const from = asked.from ?? first;
  const to = asked.to ?? (asked.follow ? ENDLESS : latest);
  const outside =
    from < first
      ? `Height ${from} is below the first indexed height.`
      : asked.follow || Math.max(from, to) <= latest
        ? undefined
        : `Height ${Math.max(from, to)} is not yet indexed: lower --to, or wait for it with --follow.`;
  const indexed = `The indexed heights are ${rangesInWords(ranges)}`;
  if (outside !== undefined) throw new OperatorError('not_found', `${outside} ${indexed}.`);
  const holes = missingIn({ from, to: Math.min(to, latest) }, ranges);
  if (holes.length === 0) return { from, to };
  throw new OperatorError(
    'not_found',
    `Between --from and --to, nothing is indexed at ${rangesInWords(holes)}. ${indexed}: choose heights of one range, ` +
      'or fill in the hole first.',
  );
}

/** Expected errors: those of the source; OperatorError `foreign` when it has another block at this height. */
export async function checkSame(
  { height, id }: Pick<BlockLine, 'height' | 'id'>,
  source: ExportSource,
): Promise<void> {
  if (firstBlockOf(await source.page({ from: height, to: height })).id === id) return;
  throw new OperatorError(
    'foreign',
    `The export holds block ${id} at height ${height}, but the index has another block there: it is of another chain, ` +
      'or was rewound. Begin a new export.',
  );
}

/** Expected errors: OperatorError `usage` when what is written goes beyond `--to` already. */
export function checkNotBeyond(name: string, reached: number, to: number | null): void {
  if (to === null || reached <= to) return;
  throw wrongUse(
    `${name} goes to height ${reached} already, which is above --to ${to}. Raise --to, or leave it out.`,
  );
}
