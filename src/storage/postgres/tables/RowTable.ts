import type { Statement } from '../connection/PostgresDatabase.js';
import { ArrayColumn } from './ArrayColumn.js';
import type { ElementType } from './ArrayColumn.js';

/** How a column is sent; in text, for what has no simple binary form, with the type that it is cast to. */
export type ColumnKind = Exclude<ElementType, 'text'> | { readonly cast: string };

/** What a table's rows consist of. */
export interface TableShape<Name extends string> {
  readonly name: string;
  readonly columns: Readonly<Record<Name, ColumnKind>>;
  readonly suffix?: string;
}

/** Rows of one table on their way there. Every row writes each column once. */
export class RowTable<Name extends string> {
  readonly columns: Readonly<Record<Name, ArrayColumn>>;
  readonly #shape: TableShape<Name>;
  rows = 0;

  constructor(shape: TableShape<Name>) {
    this.#shape = shape;
    const kinds = Object.entries<ColumnKind>(shape.columns);
    this.columns = Object.fromEntries(
      kinds.map(([name, kind]) => [name, new ArrayColumn(typeof kind === 'string' ? kind : 'text')]),
    ) as Record<Name, ArrayColumn>;
  }

  /** `undefined` without rows. */
  statement(): Statement | undefined {
    if (this.rows === 0) return undefined;
    const { name, suffix = '' } = this.#shape;
    const columns = Object.values<ArrayColumn>(this.columns);
    const kinds = Object.entries<ColumnKind>(this.#shape.columns);
    const names = kinds.map(([its]) => its).join(', ');
    const values = kinds
      .map(([its, kind]) => (typeof kind === 'string' ? its : `${its}::${kind.cast}`))
      .join(', ');
    const arrays = columns.map(({ type }, index) => `$${index + 1}::${type}[]`).join(', ');
    return {
      name: `insert_${name}`,
      text: `INSERT INTO flow_store.${name} (${names}) SELECT ${values} FROM unnest(${arrays}) AS given (${names})${suffix}`,
      values: columns.map((column) => column.finish()),
    };
  }
}
