import { readDaemonRecord, readFingerprint, readFirstToken } from '../../app/index.js';
import type { DaemonRecord, OwnAccess } from '../../app/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { maskedEndpoint } from '../../runtime/index.js';

/** Where a daemon should be listening. */
export interface DaemonAddress {
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
export function daemonAddress(loaded: LoadedConfig): DaemonAddress | undefined {
  const { host, port, tls } = loaded.config.api;
  const named = namedAddress(loaded, urlOf(host, port, tls.certificateFile !== undefined));
  if (namesDaemonAddress(loaded)) return named;
  const record = recordOf(loaded.config);
  if (record !== undefined) {
    const { api, instance } = record;
    const isSecure = api?.certificate !== undefined;
    return api && { url: urlOf(api.host, api.port, isSecure), instance, access: () => api };
  }
  return knowsDaemonAddress(loaded) ? named : undefined;
}

/** An address that the operator gave. */
function namedAddress({ config }: LoadedConfig, url: string): DaemonAddress {
  const { tls, tokensFile } = config.api;
  const { certificateFile } = tls;
  const access = (): OwnAccess => ({
    ...(certificateFile === undefined ? {} : { certificate: readFingerprint(certificateFile) }),
    ...(tokensFile === undefined ? {} : { token: readFirstToken(tokensFile) }),
  });
  return { url, instance: undefined, access };
}

/** The record in the data directory; `undefined` if that daemon uses another store than the one asked for. */
export function recordOf({ dataDir, store }: LoadedConfig['config']): DaemonRecord | undefined {
  const record = readDaemonRecord(dataDir);
  return store === undefined || record?.store === maskedEndpoint(store) ? record : undefined;
}

export function urlOf(host: string, port: number, isSecure = false): string {
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

/** True when a flag, the file or the environment says where the daemon listens. */
function knowsDaemonAddress(loaded: LoadedConfig): boolean {
  return loaded.origins['api.host'] !== 'default' || loaded.origins['api.port'] !== 'default';
}
