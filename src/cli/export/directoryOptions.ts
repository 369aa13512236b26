import { parseAccountRequest } from '../../api/index.js';
import { suggestion } from '../../config/index.js';
import { accountsOf } from '../../flow/index.js';
import { quoted } from '../../runtime/index.js';
import { DEFAULT_PARTITION, type ExportFlags } from '../arguments/flags.js';
import { checked } from '../client/documentFrom.js';
import { wrongUse } from '../command.js';
import { scriptColumns, tables, type Table } from './columns.js';
import { checkCompression } from './compression.js';
import type { FormOptions } from './forms.js';

/**
 * The options for a directory of files; `undefined` when the flags ask for plain lines of JSON. Expected errors:
 * OperatorError `usage`.
 */
export function directoryOptions(flags: ExportFlags): FormOptions | undefined {
  const { account, columns, compress, format, output, partition, role, scripts } = flags;
  if (role !== null && account === null) throw wrongUse('--role needs an account. Add --account ADDRESS.');
  const asked = [
    format !== 'ndjson' && `--format ${format}`,
    partition !== null && '--partition',
    compress !== null && '--compress',
    account !== null && '--account',
    columns !== null && '--columns',
    !scripts && '--no-scripts',
  ].find((flag) => flag !== false);
  if (asked === undefined) return undefined;
  if (output === null) throw wrongUse(`${asked} writes files into a directory. Add --output DIRECTORY.`);
  const compression = compress ?? (format === 'parquet' ? 'gzip' : 'none');
  checkCompression(compression);
  const wanted =
    account === null
      ? undefined
      : checked(() => parseAccountRequest({ address: account, role: role ?? '', limit: '', cursor: '' }));
  const chosen = format === 'ndjson' && columns === null ? undefined : chooseColumns(flags);
  const names = chosen?.map(({ name, columns: its }) => [name, its.map((each) => each.name)] as const);
  return {
    shape: {
      file_format: format,
      compression,
      partition: partition ?? DEFAULT_PARTITION,
      account: wanted?.address ?? null,
      role,
      scripts,
      columns: names === undefined ? null : Object.fromEntries(names),
    },
    tables: chosen,
    wanted:
      wanted &&
      ((wire) =>
        accountsOf(wire).some(
          ({ address, roles }) => address === wanted.address && (roles & wanted.roles) !== 0,
        )),
  };
}

/** The tables and columns to write. Expected errors: OperatorError `usage`. */
function chooseColumns({ account, columns, scripts }: ExportFlags): readonly Table[] {
  const known = tables.flatMap((table) => table.columns.map(({ name }) => `${table.name}.${name}`));
  const words = columns?.split(',').map((word) => word.trim());
  const named = words && new Set(words.flatMap((word) => namesMeant(word, known)));
  const chosen = tables.map((table) => {
    const isTransactions = table.name === 'transactions';
    // With an account only some transactions are exported: then the other tables are written only when they are named.
    const isNamed = (name: string) =>
      named?.has(`${table.name}.${name}`) ?? (account === null || isTransactions);
    const isLeftOut = (name: string) => !scripts && isTransactions && scriptColumns.includes(name);
    return { ...table, columns: table.columns.filter(({ name }) => isNamed(name) && !isLeftOut(name)) };
  });
  const kept = chosen.filter((table) => table.columns.length > 0);
  if (kept.length > 0) return kept;
  throw wrongUse('--no-scripts leaves none of the --columns. Remove one of the two.');
}

/** `id` is a column of transactions, `blocks.id` one of another table, `blocks.*` all of that table. */
function namesMeant(word: string, known: readonly string[]): string[] {
  const name = word.includes('.') ? word : `transactions.${word}`;
  const found = name.endsWith('.*')
    ? known.filter((each) => each.startsWith(name.slice(0, -1)))
    : known.filter((each) => each === name);
  if (found.length > 0) return found;
  const short = known.map((each) => each.replace(/^transactions\./, ''));
  throw wrongUse(
    `Unknown column ${quoted(word)} in --columns.${suggestion(word, short)} docs/export.md lists them. Remove it.`,
  );
}
