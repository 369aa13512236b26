import type { StatusDocument } from '../../api/index.js';
import {
  daemonRequest,
  mayReadRecord,
  readDaemonRecord,
  readFingerprint,
  readFirstToken,
} from '../../app/index.js';
import type { DaemonRecord, OwnAccess, PlainResponse } from '../../app/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { AbortError, childOf, maskedEndpoint, OperatorError, systemClock } from '../../runtime/index.js';

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
  const answer = await get(address, '/status', signal);
  if (answer?.status !== 200) return undefined;
  const status = Object(answer.body) as StatusDocument;
  if (instance !== undefined && status.instance !== instance) return undefined;
  return {
    status,
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

async function get(address: DaemonAddress, path: string, signal?: AbortSignal): Promise<Answer | undefined> {
  const response = await fetched(address, path, ANSWER_TIMEOUT_MS, signal);
  const body = response && jsonIn(response);
  // Not JSON: not our daemon.
  return response === undefined || body === undefined ? undefined : { status: response.status, body };
}

/** `undefined` for anything else. */
export function jsonIn({ bytes }: PlainResponse): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
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
  const cut = childOf(...(signal === undefined ? [] : [signal]));
  const timer = systemClock.setTimer(timeoutMs, () => cut.abort(new AbortError('no answer in time')));
  let response: PlainResponse;
  try {
    response = await daemonRequest(new URL(url + path), known, cut.signal);
  } catch {
    // Refused or timed out: not our daemon.
    return undefined;
  } finally {
    timer.cancel();
    cut.abort();
  }
  if (response.status !== 401) return response;
  throw new OperatorError(
    'usage',
    `The daemon at ${url} wants a bearer token${known.token === undefined ? '' : ' and does not accept the one we sent'}. ` +
      'Name a file with one: --api-tokens-file FILE.',
  );
}

/** Where a daemon should be listening. */
interface DaemonAddress {
  readonly url: string;
  /** The process that wrote the record; `undefined` when the operator gave the address. */
  readonly instance: string | undefined;
  /** Certificate and token to use. */
  readonly access: () => OwnAccess;
}

/**
 * The address from `--api-host` / `--api-port`, else from the record in the data directory, else from the
 * configuration file or the environment; `undefined` when none of them has one.
 */
function daemonAddress(loaded: LoadedConfig): DaemonAddress | undefined {
  const { config, origins } = loaded;
  const record = namesDaemonAddress(loaded) ? undefined : recordOf(config);
  if (record !== undefined) {
    const { api, instance } = record;
    const isSecure = api?.certificate !== undefined;
    return api && { url: urlOf(api.host, api.port, isSecure), instance, access: () => api };
  }
  if (origins['api.host'] === 'default' && origins['api.port'] === 'default') return undefined;
  const { host, port, tls, tokensFile } = config.api;
  const { certificateFile } = tls;
  const access = (): OwnAccess => ({
    ...(certificateFile === undefined ? {} : { certificate: readFingerprint(certificateFile) }),
    ...(tokensFile === undefined ? {} : { token: readFirstToken(tokensFile) }),
  });
  return { url: urlOf(host, port, certificateFile !== undefined), instance: undefined, access };
}

/** The record in the data directory; `undefined` if that daemon uses another store than the one asked for. */
export function recordOf({ dataDir, store }: LoadedConfig['config']): DaemonRecord | undefined {
  const record = readDaemonRecord(dataDir);
  return store === undefined || record?.store === maskedEndpoint(store) ? record : undefined;
}

function urlOf(host: string, port: number, isSecure = false): string {
  return `http${isSecure ? 's' : ''}://${bracketed(host)}:${port}`;
}

/** A URL needs brackets around an IPv6 address, and a wildcard address is reached through loopback. */
function bracketed(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}

/** True when a flag says where the daemon listens: then the record in the data directory is ignored. */
export function namesDaemonAddress(loaded: LoadedConfig): boolean {
  return loaded.origins['api.host'] === 'flag' || loaded.origins['api.port'] === 'flag';
}
