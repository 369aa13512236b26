import type { StatusDocument } from '../../api/index.js';
import { daemonRequest, mayReadRecord } from '../../app/index.js';
import type { PlainResponse } from '../../app/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { AbortError, OperatorError, systemClock } from '../../runtime/index.js';
import { daemonAddress, recordOf, urlOf } from './daemonAddress.js';
import type { DaemonAddress } from './daemonAddress.js';

/** How long a daemon on the same machine may take to answer. */
const ANSWER_TIMEOUT_MS = 5_000;
/** How long it may take to send a large answer. */
const LARGE_ANSWER_TIMEOUT_MS = 60_000;

export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

/** A daemon that answers. */
export interface FoundDaemon {
  readonly status: StatusDocument;
  /** One GET of a large answer; `undefined` when nothing answers, or the signal aborts. */
  read(path: string, signal: AbortSignal): Promise<PlainResponse | undefined>;
}

/**
 * The running daemon of this configuration; `undefined` when none answers. After a crash, another daemon may
 * listen at the recorded address: the one that answers must be the recorded process.
 */
export async function findDaemon(
  loaded: LoadedConfig,
  signal?: AbortSignal,
): Promise<FoundDaemon | undefined> {
  const address = daemonAddress(loaded);
  if (address === undefined) return undefined;
  const { instance } = address;
  const status = await get(address, '/status', signal);
  if (status?.status !== 200 || (instance !== undefined && instanceOf(status) !== instance)) return undefined;
  return {
    status: status.body as StatusDocument,
    read: (path, until) => fetched(address, path, LARGE_ANSWER_TIMEOUT_MS, until),
  };
}

/**
 * One GET for JSON from the daemon of this configuration; `undefined` when it does not answer, or the signal aborts.
 */
export async function askDaemon(
  loaded: LoadedConfig,
  path: string,
  signal?: AbortSignal,
): Promise<Answer | undefined> {
  const address = daemonAddress(loaded);
  if (address === undefined) return undefined;
  if (address.instance === undefined) return get(address, path, signal);
  const found = await findDaemon(loaded, signal);
  if (found === undefined || path === '/status') return found && { status: 200, body: found.status };
  return get(address, path, signal);
}

/** The error for when `askDaemon` gets no answer. */
export function noDaemon(loaded: LoadedConfig): OperatorError {
  const address = daemonAddress(loaded);
  const looked =
    address === undefined
      ? nothingRecorded(loaded.config)
      : address.instance === undefined
        ? `nothing answers at ${address.url}`
        : `the one recorded in ${loaded.config.dataDir} is gone, or does not answer at ${address.url}`;
  return new OperatorError(
    'no_daemon',
    `No daemon answers: ${looked}. Start one, or say where it is with --data-dir, or with --api-host and --api-port.`,
  );
}

function nothingRecorded(config: LoadedConfig['config']): string {
  const { dataDir } = config;
  const { metrics } = recordOf(config) ?? {};
  if (!mayReadRecord(dataDir))
    return `this user may not read in ${dataDir} where one listens (run this as the user of the daemon)`;
  return metrics === undefined
    ? `no daemon is recorded in ${dataDir}`
    : `the one recorded in ${dataDir} serves no API (not one of its roles; ${urlOf(metrics.host, metrics.port)}/readyz shows its state)`;
}

function instanceOf({ body }: Answer): unknown {
  return typeof body === 'object' && body !== null && 'instance' in body ? body.instance : undefined;
}

async function get(address: DaemonAddress, path: string, signal?: AbortSignal): Promise<Answer | undefined> {
  const response = await fetched(address, path, ANSWER_TIMEOUT_MS, signal);
  try {
    return (
      response && { status: response.status, body: JSON.parse(response.bytes.toString('utf8')) as unknown }
    );
  } catch {
    // Not JSON: not our daemon.
    return undefined;
  }
}

/**
 * One GET, uncompressed; `undefined` when nothing answers in time, or the signal aborts. Expected errors: OperatorError
 * (it wants a token that we do not have; errors of reading ours).
 */
async function fetched(
  { access, url }: DaemonAddress,
  path: string,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<PlainResponse | undefined> {
  const known = access();
  const cut = new AbortController();
  const timer = systemClock.setTimer(timeoutMs, () => cut.abort(new AbortError('no answer in time')));
  const onAbort = (): void => cut.abort(new AbortError());
  signal?.addEventListener('abort', onAbort, { once: true });
  if (signal?.aborted === true) onAbort();
  let response: PlainResponse;
  try {
    response = await daemonRequest(new URL(url + path), known, cut.signal);
  } catch {
    // Refused or timed out: not our daemon.
    return undefined;
  } finally {
    timer.cancel();
    signal?.removeEventListener('abort', onAbort);
  }
  if (response.status !== 401) return response;
  throw new OperatorError(
    'usage',
    `The daemon at ${url} wants a bearer token${known.token === undefined ? '' : ' and does not accept the one we sent'}. ` +
      'Name a file with one: --api-tokens-file FILE.',
  );
}
