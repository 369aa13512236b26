import { OperatorError } from '../../../runtime/index.js';
import { causesOf, StorageError } from '../../StorageError.js';
import type { StorageErrorKind } from '../../StorageError.js';

/** Failures of the connection, as reported by Node and the package. */
const NETWORK_CODES =
  /^(?:ECONNREFUSED|ECONNRESET|ECONNABORTED|ETIMEDOUT|EPIPE|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ENETDOWN|ENOENT)$/;
const NETWORK_WORDS =
  /^Connection terminated|^Client (?:has encountered|was closed)|after calling end|timeout exceeded when|timeout expired|read timeout/i;

interface Fault {
  /** Matched against the SQLSTATE. */
  readonly state: RegExp;
  readonly kind: StorageErrorKind;
  readonly advice: string;
}

const LATER = 'The program tries again.';

/** Faults that pass by themselves, or once the operator has repaired the database: the program waits. */
const passing: readonly Fault[] = [
  {
    state: /^53100$/,
    kind: 'disk_full',
    advice: 'The disk of the database is full. Free some space there; what was indexed is safe.',
  },
  { state: /^25006$/, kind: 'unavailable', advice: `It takes no writes now (a replica?). ${LATER}` },
  { state: /^(?:08|53|57|58|40|55)|^25P03$/, kind: 'unavailable', advice: LATER },
];

/** Faults that the operator must fix before the program can continue. */
const lasting: readonly Fault[] = [
  {
    state: /^28|^42501$/,
    kind: 'permission',
    advice:
      'Check user and password (PGPASSWORD, or the file that PGPASSFILE names), and the privileges of the user.',
  },
  { state: /^3D/, kind: 'missing', advice: 'Create the database first (createdb), or check its name.' },
  {
    state: /^XX00[12]$/,
    kind: 'corrupt',
    advice: 'The database files are damaged. Restore the database from a copy.',
  },
  {
    state: /^23/,
    kind: 'corrupt',
    advice: 'The database holds rows that this process did not write. Run "verify".',
  },
  {
    state: /^(?:42|3F)/,
    kind: 'not_a_store',
    advice:
      'Its tables are not those of this program, or are gone: restore the database from a copy, or name another one (--store).',
  },
];

/**
 * Turns a failure of the database into an error that the operator can act on. `doing` completes "Cannot …". An error
 * that is not a database fault is a bug and is returned unchanged.
 */
export function faultOf(error: unknown, doing: string, place: string): unknown {
  if (error instanceof OperatorError) return error;
  const innermost = causesOf(error).at(-1);
  if (innermost === undefined) return error;
  const code = 'code' in innermost && typeof innermost.code === 'string' ? innermost.code : '';
  const make = (kind: StorageErrorKind, advice: string): StorageError => {
    const words = innermost.message === '' ? code : innermost.message;
    return new StorageError(kind, `Cannot ${doing} at ${place} (${words}). ${advice}`, { cause: error });
  };
  if (NETWORK_CODES.test(code) || NETWORK_WORDS.test(innermost.message)) return make('unavailable', LATER);
  if (isTlsFault(code)) {
    return make(
      'permission',
      'The certificate of the server is for another host, or its authority is not trusted: see sslrootcert.',
    );
  }
  const fault = [...passing, ...lasting].find(({ state }) => /^[0-9A-Z]{5}$/.test(code) && state.test(code));
  return fault === undefined ? withoutCode(error, innermost, make) : make(fault.kind, fault.advice);
}

/** Failures of a connection that have no code. */
function withoutCode(
  error: unknown,
  innermost: Error,
  make: (kind: StorageErrorKind, advice: string) => StorageError,
): unknown {
  if (/password|SASL/i.test(innermost.message)) {
    return make('permission', 'Give the password in PGPASSWORD, or in the file that PGPASSFILE names.');
  }
  if (/does not support SSL/i.test(innermost.message)) {
    return make('permission', 'Enable TLS on the server, or use sslmode=disable if the network is safe.');
  }
  return error;
}

function isTlsFault(code: string): boolean {
  return /^(?:ERR_TLS|ERR_SSL|CERT_|UNABLE_TO|SELF_SIGNED|DEPTH_ZERO)/.test(code);
}

/** True for faults that the program waits out. */
export function isPassing(error: unknown): error is StorageError {
  return error instanceof StorageError && (error.kind === 'unavailable' || error.kind === 'disk_full');
}
