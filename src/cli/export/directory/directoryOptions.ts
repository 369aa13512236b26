import { accountRoleNames, ANY_ROLE } from '../../../api/index.js';
import { accountRoles, accountsOf, parseAddress } from '../../../flow/index.js';
import type { AccountRole, Address } from '../../../flow/index.js';
import { OperatorError, quoted } from '../../../runtime/index.js';
import { DEFAULT_PARTITION } from '../../arguments/flags.js';
import type { Compression, FileFormat } from '../../arguments/flags.js';
import { checkCompression } from '../formats/compression.js';
import type { Wanted } from '../formats/TableForm.js';
import { chooseColumns } from '../tables/chooseColumns.js';
import type { DirectoryOptions } from './exportToDirectory.js';

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
    ...{ format, compression, scripts, account, role },
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
