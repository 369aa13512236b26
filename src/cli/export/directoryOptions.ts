import { accountRoleNames, ANY_ROLE } from '../../api/index.js';
import { accountRoles, accountsOf, parseAddress } from '../../flow/index.js';
import type { AccountRole, Address } from '../../flow/index.js';
import { OperatorError, quoted } from '../../runtime/index.js';
import { DEFAULT_PARTITION } from '../arguments/flags.js';
import type { Compression, FileFormat } from '../arguments/flags.js';
import { checkCompression } from './compression.js';
import type { Wanted } from './forms.js';
import type { DirectoryOptions } from './exportToDirectory.js';
import { suggestion } from '../../config/index.js';
import { scriptColumns, tableColumns, tableNames } from './columns.js';
import type { TableColumns, TableName } from './columns.js';

/** The flags that describe the files; null where not given. */
export interface FileFlags {
  readonly output: string | null;
  readonly format: FileFormat;
  readonly partition: number | null;
  readonly compress: Compression | null;
  readonly account: string | null;
  readonly role: string | null;
  readonly columns: string | null;
  readonly scripts: boolean;
}

/**
 * The options for a directory of files; `undefined` when the flags ask for plain lines of JSON. Expected errors:
 * OperatorError `usage`.
 */
export function directoryOptions(flags: FileFlags): DirectoryOptions | undefined {
  const { format, partition, compress, columns, scripts, role } = flags;
  if (role !== null && flags.account === null) throw usage('--role needs an account. Add --account ADDRESS.');
  const asked = [
    format !== 'ndjson' && `--format ${format}`,
    partition !== null && '--partition',
    compress !== null && '--compress',
    flags.account !== null && '--account',
    columns !== null && '--columns',
    !scripts && '--no-scripts',
  ].find((flag) => flag !== false);
  if (asked === undefined) return undefined;
  if (flags.output === null) throw usage(`${asked} writes files into a directory. Add --output DIRECTORY.`);
  const account = flags.account === null ? null : addressOf(flags.account);
  const compression = compress ?? (format === 'parquet' ? 'gzip' : 'none');
  checkCompression(compression);
  const isTable = format !== 'ndjson' || columns !== null;
  return {
    format,
    compression,
    scripts,
    account,
    role,
    partition: partition ?? DEFAULT_PARTITION,
    columns: isTable ? chooseColumns({ columns, scripts, isFiltered: account !== null }) : undefined,
    wanted: account === null ? undefined : wantedOf(account, role === null ? undefined : roleOf(role)),
  };
}

function addressOf(text: string): Address {
  const address = parseAddress(text);
  if (address !== undefined) return address;
  throw usage(`invalid address ${quoted(text)}: expected 16 hexadecimal digits, with or without 0x`);
}

function roleOf(text: string): AccountRole {
  const role = accountRoleNames.find((each) => each === text);
  if (role !== undefined) return role;
  throw usage(`invalid role ${quoted(text)}: expected one of ${accountRoleNames.join(', ')}`);
}

function wantedOf(address: Address, role: AccountRole | undefined): Wanted {
  const wanted = role === undefined ? ANY_ROLE : accountRoles[role];
  return ({ wire }) =>
    accountsOf(wire).some((each) => each.address === address && (each.roles & wanted) !== 0);
}

function usage(message: string): OperatorError {
  return new OperatorError('usage', message);
}

interface ColumnSelection {
  /** As written after `--columns`. */
  readonly columns: string | null;
  readonly scripts: boolean;
  /** Only some transactions are exported: then the other tables are written only when they are named. */
  readonly isFiltered: boolean;
}

/** The columns to write; none for a table that is not written. Expected errors: OperatorError `usage`. */
function chooseColumns({ columns, scripts, isFiltered }: ColumnSelection): TableColumns {
  const known = tableNames.flatMap((table) => tableColumns[table].map(({ name }) => `${table}.${name}`));
  const words = columns?.split(',').map((word) => word.trim());
  const named = words && new Set(words.flatMap((word) => namesOf(word, known)));
  const chosen = (table: TableName, name: string): boolean => {
    if (named !== undefined) return named.has(`${table}.${name}`);
    return !isFiltered || table === 'transactions';
  };
  const isKept = (table: TableName, name: string): boolean =>
    scripts || table !== 'transactions' || !scriptColumns.includes(name);
  const of = <C extends { readonly name: string }>(table: TableName, all: readonly C[]): C[] =>
    all.filter(({ name }) => chosen(table, name) && isKept(table, name));
  const kept = {
    blocks: of('blocks', tableColumns.blocks),
    collections: of('collections', tableColumns.collections),
    transactions: of('transactions', tableColumns.transactions),
  };
  if (tableNames.every((table) => kept[table].length === 0)) {
    throw new OperatorError('usage', '--no-scripts leaves none of the --columns. Remove one of the two.');
  }
  return kept;
}

/** `id` is a column of transactions, `blocks.id` one of another table, `blocks.*` all of that table. */
function namesOf(word: string, known: readonly string[]): string[] {
  const name = word.includes('.') ? word : `transactions.${word}`;
  const found = name.endsWith('.*')
    ? known.filter((each) => each.startsWith(name.slice(0, -1)))
    : known.filter((each) => each === name);
  if (found.length > 0) return found;
  const short = known.map((each) => each.replace(/^transactions\./, ''));
  throw new OperatorError(
    'usage',
    `Unknown column ${quoted(word)} in --columns.${suggestion(word, short)} docs/export.md lists them. Remove it.`,
  );
}
