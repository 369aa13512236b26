import { ApiError } from '../api/index.js';
import { connect } from 'node:net';
import {
  daemonRequest,
  daemonRuns,
  readDaemonRecord,
  readFingerprint,
  readFirstToken,
} from '../app/index.js';
import type { ControlAnswer, DaemonRecord, OwnAccess, PlainResponse } from '../app/index.js';
import type { StatusDocument } from '../api/index.js';
import type { LoadedConfig } from '../config/index.js';
import { AbortError, maskedEndpoint, OperatorError, systemClock } from '../runtime/index.js';
import type { ExitReason } from '../runtime/index.js';
import { knowsDaemonAddress, namesDaemonAddress } from './settings.js';

/** How long a daemon on the same machine may take to answer. */
const ANSWER_TIMEOUT_MS = 5_000;
/** How long it may take to send a large answer. */
const LARGE_ANSWER_TIMEOUT_MS = 60_000;

/** Where a daemon should be listening. */
interface DaemonAddress {
  readonly url: string;
  /** The process that wrote the record; `undefined` when the operator gave the address. */
  readonly instance: string | undefined;
  /** What it takes to be let in. */
  readonly access: () => Promise<OwnAccess>;
}

/**
 * The address from `--api-host` / `--api-port`, else from the record in the data directory, else from the
 * configuration file or the environment; `undefined` when none of them has one.
 */
function daemonAddress(loaded: LoadedConfig): DaemonAddress | undefined {
  const { host, port, tls } = loaded.config.api;
  const named = namedAddress(loaded, urlOf(host, port, tls.certificateFile !== undefined));
  if (namesDaemonAddress(loaded)) return named;
  const record = recordOf(loaded.config);
  if (record !== undefined) {
    const { api, instance } = record;
    const isSecure = api?.certificate !== undefined;
    return api && { url: urlOf(api.host, api.port, isSecure), instance, access: () => Promise.resolve(api) };
  }
  return knowsDaemonAddress(loaded) ? named : undefined;
}

/** An address that the operator gave. */
function namedAddress({ config }: LoadedConfig, url: string): DaemonAddress {
  const { tls, tokensFile } = config.api;
  const { certificateFile } = tls;
  const access = async (): Promise<OwnAccess> => ({
    ...(certificateFile === undefined ? {} : { certificate: await readFingerprint(certificateFile) }),
    ...(tokensFile === undefined ? {} : { token: await readFirstToken(tokensFile) }),
  });
  return { url, instance: undefined, access };
}

/** The record in the data directory; that of a daemon with another store than the one asked for is none. */
function recordOf({ dataDir, store }: LoadedConfig['config']): DaemonRecord | undefined {
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
  return address && daemonThere(address, signal);
}

/** Whoever answers at this address like a daemon; `undefined`: nobody. */
export function daemonAt(
  loaded: LoadedConfig,
  url: string,
  signal?: AbortSignal,
): Promise<FoundDaemon | undefined> {
  return daemonThere(namedAddress(loaded, url), signal);
}

async function daemonThere(address: DaemonAddress, signal?: AbortSignal): Promise<FoundDaemon | undefined> {
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
  return metrics === undefined
    ? `no daemon is recorded in ${dataDir}`
    : `the one recorded in ${dataDir} serves no API (its roles leave that out; ${urlOf(metrics.host, metrics.port)}/readyz tells how it is)`;
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
    // Not JSON: no daemon of ours is there.
    return undefined;
  }
}

/** For a command that changes something: what runs has to come to an end. */
const COMMAND_TIMEOUT_MS = 30_000;

/**
 * Has the running daemon of this data directory obey a command; `undefined` when none runs there. Expected errors: OperatorError
 * (what the daemon refuses; `no_daemon` when it does not answer).
 */
export async function commandDaemon({ config }: LoadedConfig, command: unknown): Promise<unknown> {
  const record = recordOf(config);
  if (record === undefined || !daemonRuns(config.dataDir)) return undefined;
  const { control } = record;
  if (control === undefined)
    throw new OperatorError(
      'no_daemon',
      'The daemon that runs is of a version that takes no commands: restart it.',
    );
  const line = await exchanged(control, `${JSON.stringify(command)}\n`);
  // A record of a daemon that was killed; its process number may be somebody else's by now.
  if (line === 'nobody') return undefined;
  const answer = line === undefined ? undefined : (JSON.parse(line) as ControlAnswer);
  if (answer === undefined)
    throw new OperatorError('no_daemon', `The daemon of ${config.dataDir} does not answer. See its log.`);
  if ('refused' in answer) throw new OperatorError(answer.refused.exit, answer.refused.message);
  return answer.done;
}

/** One line there, one line back; `nobody`: nothing listens there; `undefined`: no answer. */
function exchanged(path: string, line: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    let text = '';
    let isThere = false;
    socket.setEncoding('utf8');
    socket.setTimeout(COMMAND_TIMEOUT_MS, () => socket.destroy());
    socket.on('connect', () => {
      isThere = true;
      socket.write(line);
    });
    socket.on('data', (part: string) => (text += part));
    socket.on('error', () => socket.destroy());
    socket.on('close', () => resolve(text.endsWith('\n') ? text : isThere ? undefined : 'nobody'));
  });
}

/** Why the daemon refuses. */
export function refusalOf({ status, bytes }: PlainResponse): {
  readonly reason: string | undefined;
  readonly error: OperatorError;
} {
  let body: { readonly reason?: string; readonly message?: string } = {};
  try {
    body = JSON.parse(bytes.toString('utf8')) as typeof body;
  } catch {
    // Not our JSON: only the status is left to go by.
  }
  const { reason, message = `the daemon answered with status ${status}` } = body;
  return { reason, error: refusal(status, message, reason) };
}

/** Translates a refusal of the daemon into an exit reason. */
export function refusal(status: number, message: string, reason?: string): OperatorError {
  const exit: ExitReason =
    reason === 'storage' ? 'storage' : status === 404 ? 'not_found' : status === 400 ? 'usage' : 'no_daemon';
  return new OperatorError(exit, message);
}

/** Refuses a malformed key before asking anyone. Expected errors: OperatorError `usage`. */
export function checkKey(parse: () => unknown): void {
  try {
    parse();
  } catch (error) {
    if (error instanceof ApiError) throw refusal(error.code, error.message);
    throw error;
  }
}

/**
 * One GET, uncompressed; `undefined` when nothing answers in time, or the signal aborts. Expected errors: OperatorError (it wants
 * a token that we do not have; those of reading ours).
 */
async function fetched(
  { access, url }: DaemonAddress,
  path: string,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<PlainResponse | undefined> {
  const known = await access();
  const cut = new AbortController();
  const timer = systemClock.setTimer(timeoutMs, () => cut.abort(new AbortError('no answer in time')));
  const onAbort = (): void => cut.abort(new AbortError());
  signal?.addEventListener('abort', onAbort, { once: true });
  if (signal?.aborted === true) onAbort();
  let response: PlainResponse;
  try {
    response = await daemonRequest(new URL(url + path), known, cut.signal);
  } catch {
    // Refused or timed out: no daemon of ours is there.
    return undefined;
  } finally {
    timer.cancel();
    signal?.removeEventListener('abort', onAbort);
  }
  if (response.status !== 401) return response;
  throw new OperatorError(
    'usage',
    `The daemon at ${url} wants a bearer token${known.token === undefined ? '' : ', and does not know the one that it got'}. ` +
      'Name a file with one: --api-tokens-file FILE.',
  );
}
