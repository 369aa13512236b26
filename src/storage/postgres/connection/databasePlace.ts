import { hostname } from 'node:os';
import type { ClientConfig } from 'pg';
import pgpass from 'pgpass';
import { messageOf, OperatorError, quoted, readNamedFile, type ExitReason } from '../../../runtime/index.js';

/** An idle connection is checked after this time, so that none that is dead is used. */
const KEEP_ALIVE_AFTER_MS = 5_000;
const DEFAULT_PORT = 5432;

const LOOPBACK = /^(?:localhost|127\.\d+\.\d+\.\d+|::1)$/;
const SSL_FILES = { sslrootcert: 'ca', sslcert: 'cert', sslkey: 'key' } as const;
const KNOWN = new Set(['sslmode', 'host', ...Object.keys(SSL_FILES)]);
const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full'];

/** A database, as its URL names it. */
export interface DatabasePlace {
  readonly config: ClientConfig;
  /** For messages: `postgres://host:port/database`, without user and password. */
  readonly shown: string;
}

/**
 * Reads the URL of a database, the value of the configuration key or flag `key`. The password comes from the URL, PGPASSWORD or
 * the password file. TLS is used, and certificates are verified, unless the server is on this machine or the URL says
 * `sslmode=disable`. Expected errors: `OperatorError` (`exit`).
 */
export function databasePlace(
  text: string,
  key = 'store',
  exit: ExitReason = 'configuration',
): DatabasePlace {
  const refusal = (why: string): OperatorError => new OperatorError(exit, `${key} cannot be used: ${why}.`);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  // Without repeating the text: it may hold a password.
  if (url === undefined || !/^postgres(?:ql)?:$/.test(url.protocol))
    throw refusal('it is not a database URL: postgres://HOST:PORT/DATABASE');
  const parameters = Object.fromEntries(url.searchParams);
  const unknown = Object.keys(parameters).find((name) => !KNOWN.has(name));
  if (unknown !== undefined) {
    throw refusal(`parameter ${quoted(unknown)} is not known: use ${[...KNOWN].join(', ')}`);
  }
  const port = url.port === '' ? DEFAULT_PORT : Number(url.port);
  const decoded = (part: string): string => {
    try {
      return decodeURIComponent(part);
    } catch {
      throw refusal('it has a % that encodes no character: write %25 for the sign itself');
    }
  };
  // An IPv6 address has brackets in a URL alone. PostgreSQL's own tools also take the directory of a socket here.
  const host = parameters['host'] ?? (decoded(url.hostname).replace(/^\[(.*)\]$/, '$1') || 'localhost');
  const database = decoded(url.pathname.slice(1));
  if (database === '') throw refusal('it names no database: postgres://HOST/DATABASE');
  const [user, password] = [url.username, url.password].map((part) => decoded(part) || undefined);
  const shown = `postgres://${host.startsWith('/') ? `localhost (${host})` : host}:${port}/${database}`;
  return {
    shown,
    config: {
      host,
      port,
      database,
      ...(user === undefined ? {} : { user }),
      password: password ?? passwordOf,
      ssl: tls(parameters, host, refusal),
      // Otherwise the package takes them from the environment, where they are meant for other programs.
      sslnegotiation: 'postgres',
      client_encoding: 'UTF8',
      application_name: applicationName(hostname(), process.pid),
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
    },
  };
}

/** Servers cut a name to 63 bytes. */
const MAX_HOST = 30;

/** The name that the server shows for the sessions of a process. A long host keeps the end of its first label, where pods' names differ. */
export function applicationName(host: string, pid: number): string {
  const shown = host.length > MAX_HOST ? host.replace(/\..*/s, '').slice(-MAX_HOST) : host;
  return `flow-collection-indexer ${shown}:${pid}`;
}

/**
 * The password from PGPASSWORD, else from the password file (PGPASSFILE, or its usual place), if there is one. The package
 * calls it for every connection, so the next one uses a file that has changed; with the user that PostgreSQL's own tools would take,
 * if none is named. It accepts a missing password, but its types do not say so.
 */
async function passwordOf(connection?: Parameters<typeof pgpass>[0]): Promise<string> {
  // A secret made from a file ends with its line end, and no password does.
  const given = process.env['PGPASSWORD']?.replace(/[\r\n]+$/, '') ?? '';
  if (given !== '') return given;
  const found = connection && (await new Promise((resolve) => pgpass(connection, resolve)));
  return found as string;
}

function tls(
  parameters: Readonly<Record<string, string>>,
  host: string,
  refusal: (why: string) => OperatorError,
): ClientConfig['ssl'] {
  const isLocal = host.startsWith('/') || LOOPBACK.test(host);
  const mode = parameters['sslmode'] ?? (isLocal ? 'disable' : 'verify-full');
  if (!SSL_MODES.includes(mode)) {
    throw refusal(`sslmode=${mode} could fall back to an unchecked connection: use ${SSL_MODES.join(', ')}`);
  }
  if (mode === 'disable') return false;
  const tlsOptions = {
    rejectUnauthorized: true,
    ...(mode === 'verify-ca' ? { checkServerIdentity: () => undefined } : {}),
  };
  for (const [name, option] of Object.entries(SSL_FILES)) {
    const path = parameters[name];
    if (path === undefined) continue;
    let content: string | undefined;
    const read = (): string => {
      try {
        content = readNamedFile(path).toString();
      } catch (error) {
        // A later read may meet a file that is being replaced: the last content may still do.
        if (content === undefined) throw refusal(`${path} cannot be read (${messageOf(error)})`);
      }
      return content;
    };
    read();
    // The package asks for it at every connection, so the next one uses a file that has changed.
    Object.defineProperty(tlsOptions, option, { get: read, enumerable: true, configurable: true });
  }
  return tlsOptions;
}
