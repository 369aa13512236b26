import type { SchemaElement } from 'hyparquet-writer';
import { paddedIdentifier, toAddress } from '../../flow/index.js';
import type { Transaction, TransactionSignature } from '../../flow/index.js';
import type { BlockRow, CollectionRow, Time, TransactionRow } from './TransactionRow.js';

export interface SignatureCell {
  readonly address: string;
  readonly key_index: number;
  readonly signature: Buffer;
  readonly extension_data: Buffer | null;
}

type Schema = readonly [own: Partial<SchemaElement>, ...children: readonly SchemaElement[]];

/** How the cells of a type are written, unless they are null. */
interface CellForm {
  /** In text formats: bytes as base64, unsigned 64-bit integers as decimal, as in lines of JSON. Default: as it is. */
  readonly plain?: (cell: never) => unknown;
  /** For the library of Parquet, which takes 64-bit integers only as bigint. Default: as it is. */
  readonly physical?: (cell: never, bytesOf: (text: string) => Buffer) => unknown;
  /** What Parquet's schema says of the column, and of what is below it. */
  readonly schema: Schema;
}

const TEXT = { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } } as const;
const BINARY = { type: 'BYTE_ARRAY' } as const;
const base64 = (bytes: Buffer): string => bytes.toString('base64');
const REQUIRED = { repetition_type: 'REQUIRED' } as const;

/** What a column can hold, in every format; docs/export.md says how each format writes it. */
const forms = {
  text: { schema: [TEXT] },
  /** A safe integer. */
  integer: { physical: (cell: number) => BigInt(cell), schema: [{ type: 'INT64' }] },
  /** An integer of 32 bits. */
  small: { schema: [{ type: 'INT32' }] },
  /** An integer of 64 bits without a sign. */
  unsigned: { plain: String, schema: [{ type: 'INT64', converted_type: 'UINT_64' }] },
  time: {
    plain: ({ text }: Time) => text,
    physical: ({ microseconds }: Time) => microseconds,
    schema: [
      {
        type: 'INT64',
        converted_type: 'TIMESTAMP_MICROS',
        logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
      },
    ],
  },
  binary: { plain: base64, schema: [BINARY] },
  texts: { schema: listOf({ name: 'element', ...TEXT, ...REQUIRED }) },
  binaries: {
    plain: (cell: readonly Buffer[]) => cell.map(base64),
    schema: listOf({ name: 'element', ...BINARY, ...REQUIRED }),
  },
  signatures: {
    plain: (cell: readonly SignatureCell[]) =>
      cell.map((each) => ({
        ...each,
        signature: base64(each.signature),
        extension_data: each.extension_data && base64(each.extension_data),
      })),
    physical: (cell: readonly SignatureCell[], bytesOf: (text: string) => Buffer) =>
      cell.map((each) => ({ ...each, address: bytesOf(each.address), key_index: BigInt(each.key_index) })),
    schema: listOf(
      { name: 'element', ...REQUIRED, num_children: 4 },
      { name: 'address', ...TEXT, ...REQUIRED },
      { name: 'key_index', type: 'INT64', ...REQUIRED },
      { name: 'signature', ...BINARY, ...REQUIRED },
      { name: 'extension_data', ...BINARY, repetition_type: 'OPTIONAL' },
    ),
  },
} satisfies Readonly<Record<string, CellForm>>;
type ColumnType = keyof typeof forms;
export const cellForms: Readonly<Record<ColumnType, CellForm>> = forms;

/** Reads the cell of a row as text formats write it. */
export function plainOf({ of, type }: Column): (row: never) => unknown {
  const { plain } = cellForms[type];
  return (row) => {
    const cell = of(row);
    return cell === null || plain === undefined ? cell : plain(cell as never);
  };
}

/** The three levels that Parquet requires. */
function listOf(...element: readonly SchemaElement[]): Schema {
  return [
    { converted_type: 'LIST', logical_type: { type: 'LIST' }, num_children: 1 },
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
    ...element,
  ];
}

export interface Column<Row = never> {
  readonly name: string;
  readonly type: ColumnType;
  readonly of: (row: Row) => unknown;
  /** Scattered: hardly any value repeats, and no query selects ranges; a dictionary and statistics are not worth it. */
  readonly trait?: 'nullable' | 'scattered' | undefined;
}

/** A table, or some columns of it, in the order of a file; they read its rows. */
export interface Table {
  readonly name: 'blocks' | 'collections' | 'transactions';
  readonly columns: readonly Column[];
}

/** Left out by `--no-scripts`. */
export const scriptColumns: readonly string[] = ['script', 'script_binary'];

const blocks: readonly Column<BlockRow>[] = [
  column('height', 'integer', ({ block }) => block.height),
  column('id', 'text', ({ block }) => block.id, 'scattered'),
  column('parent_id', 'text', ({ block }) => block.parentId, 'scattered'),
  column('timestamp', 'time', ({ time }) => time),
  column('timestamp_nanos', 'small', ({ time }) => time.nanoseconds),
  column('collection_count', 'small', ({ collections }) => collections.length),
  column('transaction_count', 'small', ({ transactions }) => transactions),
];

const collections: readonly Column<CollectionRow>[] = [
  column('id', 'text', ({ verified }) => verified.id, 'scattered'),
  ...ofBlock<CollectionRow>(({ of }) => of),
  column('collection_index', 'small', ({ index }) => index),
  column('transaction_count', 'small', ({ transactions }) => transactions),
];

const transactions: readonly Column<TransactionRow>[] = [
  column('id', 'text', ({ id }) => id, 'scattered'),
  ...ofBlock<TransactionRow>(({ collection }) => collection.of),
  column('collection_id', 'text', ({ collection }) => collection.verified.id),
  column('collection_index', 'small', ({ collection }) => collection.index),
  column('transaction_index', 'small', ({ index }) => index),
  body('payer', 'text', ({ payer }) => toAddress(payer)),
  body('proposer', 'text', ({ proposalKey }) => toAddress(proposalKey?.address ?? new Uint8Array())),
  body('proposer_key_index', 'integer', ({ proposalKey }) => proposalKey?.keyId ?? 0),
  body('proposer_sequence_number', 'unsigned', ({ proposalKey }) => proposalKey?.sequenceNumber ?? 0n),
  body('authorizers', 'texts', ({ authorizers }) => authorizers.map(toAddress)),
  body('reference_block_id', 'text', ({ referenceBlockId }) => paddedIdentifier(referenceBlockId)),
  body('gas_limit', 'unsigned', ({ gasLimit }) => gasLimit),
  column('script', 'text', ({ script }) => script.text, 'nullable'),
  column('script_binary', 'binary', ({ script }) => (script.text === null ? script.bytes : null), 'nullable'),
  column('script_sha256', 'text', ({ script }) => script.sha256),
  column('arguments', 'texts', ({ argumentTexts }) => argumentTexts, 'nullable'),
  column(
    'arguments_binary',
    'binaries',
    // Copies: a view would keep its whole collection in memory.
    ({ argumentTexts, transaction }) =>
      argumentTexts === null ? transaction.arguments.map((bytes) => Buffer.from(bytes)) : null,
    'nullable',
  ),
  signatures('payload_signatures', ({ payloadSignatures }) => payloadSignatures),
  signatures('envelope_signatures', ({ envelopeSignatures }) => envelopeSignatures),
];

/** Every table and column; docs/export.md describes them. */
export const tables: readonly Table[] = [
  { name: 'blocks', columns: blocks },
  { name: 'collections', columns: collections },
  { name: 'transactions', columns: transactions },
];

function column<Row>(
  name: string,
  type: ColumnType,
  of: (row: Row) => unknown,
  trait?: Column['trait'],
): Column<Row> {
  return { name, type, of, trait };
}

function ofBlock<Row>(blockOf: (row: Row) => BlockRow): Column<Row>[] {
  return [
    column('height', 'integer', (row) => blockOf(row).block.height),
    column('block_id', 'text', (row) => blockOf(row).block.id),
    column('timestamp', 'time', (row) => blockOf(row).time),
  ];
}

function body(name: string, type: ColumnType, of: (transaction: Transaction) => unknown) {
  return column<TransactionRow>(name, type, ({ transaction }) => of(transaction));
}

function signatures(name: string, of: (transaction: Transaction) => readonly TransactionSignature[]) {
  return column<TransactionRow>(
    name,
    'signatures',
    ({ transaction }) =>
      of(transaction).map(({ address, keyId, signature, extensionData }) => ({
        address: toAddress(address),
        key_index: keyId,
        signature: Buffer.from(signature),
        extension_data: extensionData.length === 0 ? null : Buffer.from(extensionData),
      })),
    'scattered',
  );
}
