import { exportPage, lastReadable } from '../../api/index.js';
import type { ExportRange, IndexedRange, StatusDocument } from '../../api/index.js';
import { openStoreReadOnly } from '../../app/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { abortReason, programVersion, sleep, systemClock } from '../../runtime/index.js';
import { findDaemon, noDaemon, readBytes, refusalOf } from '../client.js';
import { PROGRAM } from '../parse.js';
import { namesDaemonAddress } from '../settings.js';

/** What asking for a page came to. */
export type Page =
  | { readonly kind: 'page'; readonly lines: Buffer }
  /** The height is above what is indexed. */
  | { readonly kind: 'not_yet' }
  /** The daemon has too much to do just now. */
  | { readonly kind: 'busy' }
  /** No daemon answers. */
  | { readonly kind: 'gone' };

/** Where the lines come from. The bytes are the same wherever they come from. */
export interface ExportSource {
  /** For people. */
  readonly name: string;
  readonly chainId: string;
  /** Name and version of the program that makes the lines. */
  readonly program: string;
  /** `undefined` while no daemon answers. */
  range(): Promise<Pick<IndexedRange, 'firstIndexed' | 'latestIndexed'> | undefined>;
  /**
   * Whole blocks from `from` on, never above `to`. Expected errors: OperatorError (`not_found` below the first height,
   * `storage`); the signal's abort reason.
   */
  page(range: ExportRange, signal: AbortSignal): Promise<Page>;
  close(): Promise<void>;
}

/**
 * The running daemon of a configuration, else its store. Expected errors: OperatorError (`no_daemon` where the command line
 * names an address at which none answers, or one is needed; those of `openStoreReadOnly`).
 */
export async function openExportSource(
  loaded: LoadedConfig,
  { needsDaemon }: { readonly needsDaemon: boolean },
): Promise<ExportSource> {
  const found = await findDaemon(loaded);
  if (found !== undefined) return daemonSource(loaded, found.status);
  if (needsDaemon || namesDaemonAddress(loaded)) throw noDaemon(loaded);
  return storeSource(loaded);
}

/** Looks the daemon up again for as long as it does not answer: after a restart it may listen elsewhere. */
function daemonSource(
  loaded: LoadedConfig,
  { chainId, version }: Pick<StatusDocument, 'chainId' | 'version'>,
): ExportSource {
  let url: string | undefined;
  const address = async (): Promise<string | undefined> => (url ??= (await findDaemon(loaded))?.url);
  return {
    name: 'the running daemon',
    chainId,
    program: `${PROGRAM} ${version}`,
    range: async () => {
      const found = await findDaemon(loaded);
      url = found?.url;
      return found?.status;
    },
    page: async ({ from, to }, signal) => {
      const base = await address();
      const path = `/export?from=${from}&to=${to}`;
      const answer = base === undefined ? undefined : await readBytes(base + path, signal);
      if (signal.aborted) throw abortReason(signal);
      if (answer === undefined) {
        url = undefined;
        return { kind: 'gone' };
      }
      if (answer.status === 200) return { kind: 'page', lines: answer.bytes };
      if (answer.status === 429 || answer.status === 503) return { kind: 'busy' };
      const { reason, error } = refusalOf(answer);
      if (reason === 'not_yet_indexed') return { kind: 'not_yet' };
      throw error;
    },
    close: () => Promise.resolve(),
  };
}

async function storeSource(loaded: LoadedConfig): Promise<ExportSource> {
  const { config } = loaded;
  const store = await openStoreReadOnly(config);
  return {
    name: `the store in ${config.dataDir}`,
    chainId: config.chainId,
    program: `${PROGRAM} ${programVersion()}`,
    range: () => {
      const firstIndexed = store.meta()?.firstHeight ?? null;
      const latestIndexed = lastReadable({ firstIndexed, latestIndexed: store.latestIndexedHeight() });
      return Promise.resolve({ firstIndexed, latestIndexed });
    },
    page: async (range, signal) => {
      // A turn of the event loop is what lets a signal in.
      await sleep(systemClock, 0, signal);
      const lines = Buffer.from(await exportPage(store, range), 'utf8');
      return lines.length === 0 ? { kind: 'not_yet' } : { kind: 'page', lines };
    },
    close: () => store.close(),
  };
}
