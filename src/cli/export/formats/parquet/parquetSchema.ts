import type { SchemaElement } from 'hyparquet-writer';
import type { ColumnShape } from '../../tables/column.js';

type Repetition = NonNullable<SchemaElement['repetition_type']>;

/** Parquet's schema of a table: a root, then the columns, each followed by its children. */
export function parquetSchema(columns: readonly ColumnShape[]): SchemaElement[] {
  return [{ name: 'root', num_children: columns.length }, ...columns.flatMap(elementsOf)];
}

function elementsOf({ name, type, isNullable }: ColumnShape): SchemaElement[] {
  const repetition: Repetition = isNullable ? 'OPTIONAL' : 'REQUIRED';
  switch (type) {
    case 'text':
      return [text(name, repetition)];
    case 'integer':
      return [{ name, type: 'INT64', repetition_type: repetition }];
    case 'small':
      return [{ name, type: 'INT32', repetition_type: repetition }];
    case 'unsigned':
      return [{ name, type: 'INT64', converted_type: 'UINT_64', repetition_type: repetition }];
    case 'time':
      return [
        {
          name,
          type: 'INT64',
          converted_type: 'TIMESTAMP_MICROS',
          repetition_type: repetition,
          logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
        },
      ];
    case 'binary':
      return [binary(name, repetition)];
    case 'texts':
      return listOf(name, repetition, [text('element', 'REQUIRED')]);
    case 'binaries':
      return listOf(name, repetition, [binary('element', 'REQUIRED')]);
    case 'signatures':
      return listOf(name, repetition, [
        { name: 'element', repetition_type: 'REQUIRED', num_children: 4 },
        text('address', 'REQUIRED'),
        { name: 'key_index', type: 'INT64', repetition_type: 'REQUIRED' },
        binary('signature', 'REQUIRED'),
        binary('extension_data', 'OPTIONAL'),
      ]);
  }
}

function text(name: string, repetition: Repetition): SchemaElement {
  return {
    name,
    type: 'BYTE_ARRAY',
    converted_type: 'UTF8',
    repetition_type: repetition,
    logical_type: { type: 'STRING' },
  };
}

function binary(name: string, repetition: Repetition): SchemaElement {
  return { name, type: 'BYTE_ARRAY', repetition_type: repetition };
}

/** The three levels that the format requires. */
function listOf(name: string, repetition: Repetition, element: readonly SchemaElement[]): SchemaElement[] {
  return [
    {
      name,
      converted_type: 'LIST',
      logical_type: { type: 'LIST' },
      repetition_type: repetition,
      num_children: 1,
    },
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
    ...element,
  ];
}
