import { exportPage } from '../../../api/index.js';
import type { ExportRange } from '../../../api/index.js';
import { openStoreReadOnly, placeOfStore } from '../../../app/index.js';
import type { LoadedConfig } from '../../../config/index.js';
import { abortReason, OperatorError, programVersion, sleep, systemClock } from '../../../runtime/index.js';
import type { HeightRange } from '../../../storage/index.js';
import { findDaemon, noDaemon, refusalOf } from '../../client.js';
import type { FoundDaemon } from '../../client.js';
import { PROGRAM } from '../../parse.js';
import { namesDaemonAddress } from '../../settings.js';
import type { ExportProgress } from './exportProgress.js';

/** Before looking again for a height that is not indexed yet, or for a daemon that has gone. */
const LOOK_AGAIN_MS = 500;
/** Before asking a busy daemon again. */
const BUSY_MS = 1_000;

/** Where the lines come from. They are the same from every source. */
export interface ExportSource {
  /** For people. */
  readonly name: string;
  readonly chainId: string;
  /** Name and version of the program that makes the lines. */
  readonly program: string;
  /** The readable heights, as they are now; with `follow` there may be none. */
  range(): Promise<ReadableHeights>;
  /** Whole blocks from `from` on, none above `to`. */
  page(range: ExportRange): Promise<Buffer>;
  close(): Promise<void>;
}

/** From the lowest to the highest of all ranges; `latest` is below `first` where there are none. */
export interface ReadableHeights {
  readonly first: number;
  readonly latest: number;
  /** Ascending. */
  readonly ranges: readonly HeightRange[];
}

export interface ExportSourceOptions {
  /** Waits for heights that are not indexed yet, and for a daemon that has gone. */
  readonly follow: boolean;
  readonly signal: AbortSignal;
  readonly progress: ExportProgress;
}

/**
 * Opens the configured daemon, else its store. Expected errors, also of the source: OperatorError (`no_daemon`
 * when one is needed; `not_found`; `storage`; those of `openStoreReadOnly`); the signal's abort reason.
 */
export async function openExportSource(
  loaded: LoadedConfig,
  options: ExportSourceOptions,
): Promise<ExportSource> {
  const found = await findDaemon(loaded);
  if (found !== undefined) return daemonSource(loaded, options, found);
  if (options.follow || namesDaemonAddress(loaded)) throw noDaemon(loaded);
  return storeSource(loaded, options);
}

/** After a restart the daemon may listen elsewhere, so we look it up again whenever it does not answer. */
function daemonSource(
  loaded: LoadedConfig,
  { follow, signal, progress }: ExportSourceOptions,
  first: FoundDaemon,
): ExportSource {
  let daemon: FoundDaemon | undefined = first;
  let isFresh = true;
  const lookAgain = async (error: OperatorError): Promise<void> => {
    if (!follow) throw error;
    progress.answers(daemon !== undefined);
    await sleep(systemClock, LOOK_AGAIN_MS, signal);
  };
  return {
    name: 'the running daemon',
    chainId: first.status.chainId,
    program: `${PROGRAM} ${first.status.version}`,
    range: async () => {
      if (!isFresh) daemon = await findDaemon(loaded);
      isFresh = false;
      for (;;) {
        const { firstIndexed = null, latestIndexed = null } = daemon?.status ?? {};
        if (firstIndexed !== null && (follow || latestIndexed !== null)) {
          return oneRange(firstIndexed, latestIndexed ?? firstIndexed - 1);
        }
        await lookAgain(daemon === undefined ? noDaemon(loaded) : nothingIndexed());
        daemon = await findDaemon(loaded);
      }
    },
    page: async ({ from, to }) => {
      for (;;) {
        daemon ??= await findDaemon(loaded);
        const answer = daemon && (await daemon.read(`/export?from=${from}&to=${to}`, signal));
        if (signal.aborted) throw abortReason(signal);
        if (answer === undefined) {
          daemon = undefined;
          await lookAgain(noDaemon(loaded));
          continue;
        }
        progress.answers(true);
        if (answer.status === 200) return answer.bytes;
        const { reason, error } = refusalOf(answer);
        if (answer.status === 429 || answer.status === 503) await sleep(systemClock, BUSY_MS, signal);
        else if (reason === 'not_yet_indexed') await lookAgain(error);
        else throw error;
      }
    },
    close: () => Promise.resolve(),
  };
}

async function storeSource({ config }: LoadedConfig, { signal }: ExportSourceOptions): Promise<ExportSource> {
  const store = await openStoreReadOnly(config);
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
      // Let signals in.
      await sleep(systemClock, 0, signal);
      const lines = await exportPage(store, range);
      if (lines !== '') return Buffer.from(lines);
      throw new OperatorError('not_found', `Height ${range.from} is not indexed.`);
    },
    close: () => store.close(),
  };
}

function oneRange(first: number, latest: number): ReadableHeights {
  return { first, latest, ranges: latest < first ? [] : [{ from: first, to: latest }] };
}

function nothingIndexed(): OperatorError {
  return new OperatorError('not_found', 'Nothing is indexed yet: there is nothing to export.');
}
