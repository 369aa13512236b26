import pg from 'pg';
import { OperatorError } from '../../../runtime/index.js';
import { causesOf, DatabaseFault, StorageError, type StorageErrorKind } from '../../StorageError.js';

const HELD_UP: typeof ADVICE = [
  [/for a standby/, 'Bring that standby back, or take it out of synchronous_standby_names.'],
  [/for a lock|^55P03/, 'Let the process that holds the lock finish, or end it (pg_terminate_backend).'],
];

/** What to do about some answers. Only advice: any error that a server reports is the server's, and is waited for. */
const ADVICE: readonly (readonly [said: RegExp, advice: string, kind?: StorageErrorKind])[] = [
  [
    /^53100/,
    'The disk of the database is full. Free some space there; what was indexed is safe.',
    'disk_full',
  ],
  [/^25006/, 'It takes no writes now: is it a replica, or did its host make it read-only?'],
  [/^26000|^42P05/, 'A pooler seems to give sessions of this program to other clients: see docs/poolers.md.'],
  [/^40001.*recovery/, 'This replica cancels long reads: set hot_standby_feedback = on there.'],
  [
    /^42501/,
    'Grant it: to index, a user owns flow_store, flow, flow_jobs and all in them, or may create schemas; to read, it needs SELECT in flow_store.',
    'permission',
  ],
  [
    /^28/,
    'Check user and password (PGPASSWORD, or the file that PGPASSFILE names), and whether pg_hba.conf lets that user in.',
    'permission',
  ],
  [
    /^53300/,
    'Allow more connections of the server, the database or the user: docs/poolers.md says how many are used.',
  ],
  [
    /^(?:42|3F).*\bflow_jobs\b/,
    'Tables of the queue are missing or changed. Drop what is left of its schema, flow_jobs, and start again: a start creates them.',
    'not_a_store',
  ],
  [/^23503/, 'A table of another program refers to these rows: drop that foreign key.'],
  [/^3D/, 'Create the database first (createdb), or check its name.', 'missing'],
  [/^XX00[12]/, 'The database files are damaged. Restore the database from a copy.', 'io'],
  [
    /^42(?:601|704) FATAL/,
    'The server does not take what PGOPTIONS asks of a new connection: change or unset it.',
  ],
  [
    /^(?:42|3F)/,
    'Its tables are not those of this program, or are gone: restore the database from a copy, or name another one (--store).',
    'not_a_store',
  ],
  [/./, 'The log of the server, or of the pooler before it, says more.'],
];

/** The same for errors of a connection, by their code or message. */
const CONNECTION_ADVICE: typeof ADVICE = [
  [
    /^ERR_OSSL/,
    'sslcert and sslkey must name a certificate and its own key, in PEM and without a passphrase.',
    'permission',
  ],
  // RFC 8446, 6: what the other side says of a certificate.
  [
    /SSL alert number (?:4[2-68]|116)\b/,
    'The server does not accept the certificate of this program: see sslcert and sslkey.',
    'permission',
  ],
  [
    /SSL routines/,
    'What answers does not speak the TLS of this program: check the port, and ssl_min_protocol_version and ssl_ciphers of the server.',
    'permission',
  ],
  [
    /^(?:ERR_TLS|CERT_|UNABLE_TO|SELF_SIGNED|DEPTH_ZERO)/,
    'The certificate of the server is for another host, or its authority is not trusted: see sslrootcert.',
    'permission',
  ],
  [/password|SASL/i, 'Give the password in PGPASSWORD, or in the file that PGPASSFILE names.', 'permission'],
  [
    /does not support SSL/i,
    'Enable TLS on the server, or use sslmode=disable if the network is safe.',
    'permission',
  ],
  [
    /has not answered/,
    'Check the server, and what lies between: a firewall or balancer may have dropped the connection without a word, and a pooler may have none left.',
  ],
  [
    /\bE[MN]FILE\b|too many open files/i,
    'No more files or connections may be open here: raise the limit ("ulimit -n", or LimitNOFILE of the systemd unit).',
  ],
  [/has kept \d+ of/, 'A trigger or rule of that table in flow_store drops rows: remove it.'],
  [/(?:)/, 'Check that it runs, and can be reached from here.'],
];

/**
 * What a server or pooler has said, anywhere among the causes of an error; `undefined` if none has said anything. `doing`
 * completes "Cannot …".
 */
export function saidByServer(error: unknown, doing: string, place: string, owner?: object) {
  const causes = causesOf(error);
  const known = causes.find((cause) => cause instanceof DatabaseFault);
  const said = causes.find((cause) => cause instanceof pg.DatabaseError);
  if (known !== undefined || said === undefined) return known;
  const { code, constraint, hint, message, schema, severity, table } = said;
  const state = code === undefined ? '' : ` [SQLSTATE ${code}]`;
  const words = `Cannot ${doing} at ${place} (${message}${state})${hint ? `. Hint: ${hint.replace(/\.$/, '')}` : ''}`;
  // The next attempt would meet the same: rows of another program, a constraint or a lost partition.
  if (/^23/.test(code ?? '') && schema === 'flow_store' && table !== undefined) {
    const advice =
      code === '23505' && constraint?.endsWith('_pkey') === true
        ? 'The database holds rows that this process did not write. Run "verify".'
        : 'That table was changed from outside: remove the constraint, or restore the partition, and start again.';
    return new StorageError('corrupt', `${words}. ${advice}`, { cause: error });
  }
  const [, advice, kind = 'unavailable'] = adviceFor(ADVICE, `${code} ${severity} ${message}`);
  return new DatabaseFault(kind, `${words}. ${advice}`, { cause: error, code, owner });
}

/** What an error of a connection means. One of our own is returned unchanged. */
export function faultOf(error: unknown, doing: string, place: string): unknown {
  const said = saidByServer(error, doing, place);
  if (said !== undefined) return said;
  if (error instanceof OperatorError || error instanceof TypeError || error instanceof RangeError)
    return error;
  const innermost = causesOf(error).at(-1);
  if (innermost === undefined) return error;
  const code = 'code' in innermost && typeof innermost.code === 'string' ? innermost.code : '';
  const words = innermost.message === '' ? code : innermost.message;
  const [, advice, kind = 'unavailable'] = adviceFor(CONNECTION_ADVICE, `${code} ${words}`.trim());
  return new DatabaseFault(kind, `Cannot ${doing} at ${place} (${words}). ${advice}`, { cause: error });
}

function adviceFor(table: typeof ADVICE, what: string): (typeof ADVICE)[number] {
  const found = [...HELD_UP, ...table].find(([pattern]) => pattern.test(what));
  if (found === undefined) throw new Error('the last pattern matches everything');
  return found;
}
