import { missingIn, statusSchema, type StatusDocument } from '../../api/index.js';
import { daemonRequest, loadStores, mayReadRecord, readDaemonRecord } from '../../app/index.js';
import { readFingerprint, readFirstToken } from '../../app/index.js';
import type { DaemonRecord, OwnAccess, PlainResponse } from '../../app/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { asError, childOf, hostAndPort, jsonIn, maskedEndpoint } from '../../runtime/index.js';
import { OperatorError, programVersion, systemClock, within } from '../../runtime/index.js';
import { StorageError } from '../../storage/index.js';

const ANSWER_TIMEOUT_MS = 5_000;
const LARGE_ANSWER_TIMEOUT_MS = 60_000;
/** For the second request, which only finds out why the first one failed. */
const REASON_TIMEOUT_MS = 1_000;

/**
 * The status of the running daemon of this configuration; `undefined` when none answers, or the signal aborts. Expected errors:
 * those of `askDaemon`; OperatorError (`no_daemon`) if it lacks a field in `needs` (default: all fields), as in another version.
 */
export async function daemonStatus(
  loaded: LoadedConfig,
  how: Readonly<{ needs?: readonly (keyof StatusDocument)[] | undefined; signal?: AbortSignal }> = {},
): Promise<StatusDocument | undefined> {
  const answer = await askDaemon(loaded, '/status', { signal: how.signal });
  const status = answer?.status === 200 ? (bodyOf(answer) as StatusDocument | undefined) : undefined;
  const { target = {} } = statusSchema.keywords;
  const lacked = status && missingIn(status, { ...target, required: how.needs ?? target.required ?? [] });
  if (lacked === undefined) return status;
  throw new OperatorError(
    'no_daemon',
    `The running daemon (${status?.version}) is of another build than this command (${programVersion}), which needs "${lacked}" ` +
      'of its status. Restart the daemon; "status --json" shows what it reports.',
  );
}

/**
 * One GET, uncompressed, from the running daemon of this configuration; `undefined` when none answers in time, or the signal aborts.
 * After a crash, another daemon may listen at the recorded address: the one that answers must be the recorded process, which takes
 * another request unless it is known. Expected errors: OperatorError (it wants a token that we do not have; errors of reading ours).
 */
export async function askDaemon(
  loaded: LoadedConfig,
  path: string,
  how: Readonly<{ isKnown?: boolean; isLarge?: boolean; signal?: AbortSignal | undefined }> = {},
): Promise<PlainResponse | undefined> {
  const { isKnown = false, isLarge = false, signal } = how;
  const address = daemonAddress(loaded);
  if (address === undefined) return undefined;
  const { instance } = address;
  if (instance !== undefined && !isKnown) {
    const status = await get(address, '/status', ANSWER_TIMEOUT_MS, signal);
    if (typeof status === 'string' || instanceOf(status) !== instance) return undefined;
    if (path === '/status') return status;
  }
  const answer = await get(address, path, isLarge ? LARGE_ANSWER_TIMEOUT_MS : ANSWER_TIMEOUT_MS, signal);
  return typeof answer === 'string' ? undefined : answer;
}

export async function noDaemon(loaded: LoadedConfig): Promise<OperatorError> {
  const advice = 'Start one, or say where it is with --data-dir, or with --api-host and --api-port.';
  return new OperatorError('no_daemon', `${await whyNoDaemon(loaded)} ${advice}`);
}

/**
 * Reads the store of a daemon that does not answer, unless a flag says where it listens. If it still locks the store, the error
 * first says why it does not answer. Expected errors: `noDaemon`; those of `read`.
 */
export async function unserved<T>(
  loaded: LoadedConfig,
  read: (stores: Awaited<ReturnType<typeof loadStores>>) => Promise<T>,
): Promise<T> {
  if (namesDaemonAddress(loaded)) throw await noDaemon(loaded);
  try {
    return await read(await loadStores());
  } catch (error) {
    const isLocked = error instanceof StorageError && error.kind === 'locked';
    if (!isLocked || recordOf(loaded.config) === undefined) throw error;
    throw new OperatorError('storage', `${await whyNoDaemon(loaded)} ${error.message}`, { cause: error });
  }
}

/** Says that no daemon answers, and why: one more request finds out. */
async function whyNoDaemon(loaded: LoadedConfig): Promise<string> {
  const address = daemonAddress(loaded);
  const { dataDir } = loaded.config;
  const isRecorded = address?.instance !== undefined;
  const one = isRecorded ? `the one recorded in ${dataDir} is gone, or does not answer` : 'none';
  const answer = address && (await get(address, '/status', REASON_TIMEOUT_MS));
  const why =
    typeof answer !== 'object'
      ? answer
      : answer.status !== 200
        ? `HTTP ${answer.status}; api.port is that of the read API`
        : (instanceOf(answer) ?? '') === (address?.instance ?? instanceOf(answer))
          ? 'it answers again: try once more'
          : 'another process answers there';
  const looked = address === undefined ? nothingRecorded(loaded.config) : `${one} at ${address.url} (${why})`;
  return `No daemon answers: ${looked}.`;
}

function nothingRecorded(config: LoadedConfig['config']): string {
  const { dataDir } = config;
  if (!mayReadRecord(dataDir))
    return `this user may not read in ${dataDir}, where one would be recorded (run this as the user of the daemon)`;
  const record = recordOf(config);
  return record === undefined
    ? `no daemon is recorded in ${dataDir}`
    : `the one recorded in ${dataDir} serves no API (not one of its roles; ${urlOf(record.metrics)}/readyz shows its state)`;
}

/** `undefined` for anything else than JSON. */
export const bodyOf = ({ bytes }: PlainResponse): unknown => jsonIn(bytes.toString());
/** The daemon that sent this status; `undefined` if it is not a status. */
const instanceOf = (answer: PlainResponse): string | undefined =>
  answer.status === 200 ? (Object(bodyOf(answer)) as Partial<StatusDocument>).instance : undefined;

/** The answer or, where none comes in time, why. Expected errors: OperatorError (it wants a token that we do not have). */
async function get(
  { access, url }: NonNullable<ReturnType<typeof daemonAddress>>,
  path: string,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<PlainResponse | string> {
  const known = access();
  const cut = childOf(...(signal === undefined ? [] : [signal]));
  const request = daemonRequest(new URL(url + path), known, cut.signal);
  const answer = await within(
    systemClock,
    timeoutMs,
    request.catch((error: unknown) => failureOf(asError(error), url)),
  );
  cut.abort();
  if (answer === 'late') return `no answer within ${timeoutMs / 1_000} s`;
  if (typeof answer === 'string' || answer.status !== 401) return answer;
  throw new OperatorError(
    'usage',
    `The daemon at ${url} wants a bearer token${known.token === undefined ? '' : ' and does not accept the one we sent'}. ` +
      'Name a file with one: --api-tokens-file FILE.',
  );
}

function failureOf(error: Error, url: string): string {
  const code = 'code' in error ? String(error.code) : error.message;
  if (code.startsWith('HPE_')) return `${code}: no HTTP; api.port is not that of gRPC`;
  if (code.startsWith('ERR_SSL')) return `${code}: no TLS; leave out api.tls.certificateFile`;
  const mayBeSecured = code === 'ECONNRESET' && url.startsWith('http:');
  return mayBeSecured ? `${code}: if it speaks TLS, name --api-tls-certificate-file FILE` : code;
}

/**
 * Where a daemon should be listening: from `--api-host` / `--api-port`, else from the record in the data directory, with the instance
 * that wrote it, else from the configuration file or the environment; `undefined` when none of them has an address.
 */
function daemonAddress(loaded: LoadedConfig) {
  const { config, origins } = loaded;
  const record = namesDaemonAddress(loaded) ? undefined : recordOf(config);
  if (record !== undefined) {
    const { api, instance } = record;
    return api && { url: urlOf(api, api.certificate), instance, access: (): OwnAccess => api };
  }
  if (origins['api.host'] === 'default' && origins['api.port'] === 'default') return undefined;
  const { tls, tokensFile } = config.api;
  const access = (): OwnAccess => ({
    certificate: tls.certificateFile && readFingerprint(tls.certificateFile),
    token: tokensFile && readFirstToken(tokensFile),
  });
  return { url: urlOf(config.api, tls.certificateFile), instance: undefined, access };
}

/** The record in the data directory; `undefined` if that daemon uses another store than the one asked for. */
export function recordOf({ dataDir, store }: LoadedConfig['config']): DaemonRecord | undefined {
  const record = readDaemonRecord(dataDir);
  return store === undefined || record?.store === maskedEndpoint(store) ? record : undefined;
}

/** A wildcard address is reached through loopback. */
function urlOf({ host, port }: DaemonRecord['metrics'], certificate?: string): string {
  const reached = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host;
  return `http${certificate === undefined ? '' : 's'}://${hostAndPort({ host: reached, port })}`;
}

/** True when a flag says where the daemon listens: then the record in the data directory is ignored. */
export function namesDaemonAddress(loaded: LoadedConfig): boolean {
  return loaded.origins['api.host'] === 'flag' || loaded.origins['api.port'] === 'flag';
}
