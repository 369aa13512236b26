import { readDaemonRecord } from '../app/index.js';
import type { LoadedConfig } from '../config/index.js';
import { AbortError, OperatorError, systemClock } from '../runtime/index.js';
import { knowsDaemonAddress, namesDaemonAddress } from './settings.js';

/** How long a daemon on the same machine may take to answer. */
const ANSWER_TIMEOUT_MS = 5_000;

/** Where a daemon is said to listen. */
interface DaemonAddress {
  readonly url: string;
  /** The process that wrote the record; `undefined` when the operator named the address. */
  readonly instance: string | undefined;
}

/**
 * `--api-host` / `--api-port` when given, else the record in the data directory, else what a file or the environment says
 * of the address; `undefined` when nothing is known.
 */
function daemonAddress(loaded: LoadedConfig): DaemonAddress | undefined {
  const { host, port } = loaded.config.api;
  const named = { url: urlOf(host, port), instance: undefined };
  if (namesDaemonAddress(loaded)) return named;
  const record = readDaemonRecord(loaded.config.dataDir);
  if (record !== undefined)
    return { url: urlOf(record.api.host, record.api.port), instance: record.instance };
  return knowsDaemonAddress(loaded) ? named : undefined;
}

function urlOf(host: string, port: number): string {
  return `http://${bracketed(host)}:${port}`;
}

/** IPv6 addresses need brackets in a URL, and "every address" is reached through loopback. */
function bracketed(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}

export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

/**
 * One GET for JSON from the daemon of this configuration; `undefined` when it does not answer. A record that a crash
 * left behind may name the address of another daemon by now: whoever answers there must be the process of the record.
 */
export async function askDaemon(loaded: LoadedConfig, path: string): Promise<Answer | undefined> {
  const address = daemonAddress(loaded);
  if (address === undefined) return undefined;
  const { url, instance } = address;
  if (instance === undefined) return get(url + path);
  const status = await get(`${url}/status`);
  if (status === undefined || instanceOf(status) !== instance) return undefined;
  return path === '/status' ? status : get(url + path);
}

/** What to say when `askDaemon` got no answer. */
export function noDaemon(loaded: LoadedConfig): OperatorError {
  const address = daemonAddress(loaded);
  const looked =
    address === undefined
      ? `no daemon is recorded in ${loaded.config.dataDir}`
      : address.instance === undefined
        ? `nothing answers at ${address.url}`
        : `the one recorded in ${loaded.config.dataDir} is gone, or does not answer at ${address.url}`;
  return new OperatorError(
    'no_daemon',
    `No daemon answers: ${looked}. Start one, or say where it is with --data-dir, or with --api-host and --api-port.`,
  );
}

function instanceOf({ body }: Answer): unknown {
  return typeof body === 'object' && body !== null && 'instance' in body ? body.instance : undefined;
}

async function get(url: string): Promise<Answer | undefined> {
  const tooLate = new AbortController();
  const timer = systemClock.setTimer(ANSWER_TIMEOUT_MS, () =>
    tooLate.abort(new AbortError('no answer in time')),
  );
  try {
    const response = await fetch(url, { signal: tooLate.signal });
    return { status: response.status, body: await response.json() };
  } catch {
    // Whatever it is, from a refused connection to an answer that is no JSON: no daemon of ours is there.
    return undefined;
  } finally {
    timer.cancel();
  }
}
