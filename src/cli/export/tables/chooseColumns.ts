import { suggestion } from '../../../config/index.js';
import { OperatorError, quoted } from '../../../runtime/index.js';
import { scriptColumns, tableColumns, tableNames } from './tableColumns.js';
import type { TableColumns, TableName } from './tableColumns.js';

export interface ColumnSelection {
  /** As written after `--columns`. */
  readonly columns: string | null;
  readonly scripts: boolean;
  /** Only some transactions are exported: then the other tables are written only when they are named. */
  readonly isFiltered: boolean;
}

/** The columns to write; none for a table that is not written. Expected errors: OperatorError `usage`. */
export function chooseColumns({ columns, scripts, isFiltered }: ColumnSelection): TableColumns {
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
