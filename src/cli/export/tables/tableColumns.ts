import type { Cell, Column, ColumnShape, ColumnType } from './column.js';
import { signatureCell } from './rows.js';
import type { BlockRow, CollectionRow, TransactionRow } from './rows.js';

export const tableNames = ['blocks', 'collections', 'transactions'] as const;
export type TableName = (typeof tableNames)[number];

/** The columns of each table, in the order of a file. */
export interface TableColumns {
  readonly blocks: readonly Column<BlockRow>[];
  readonly collections: readonly Column<CollectionRow>[];
  readonly transactions: readonly Column<TransactionRow>[];
}

/** Left out by `--no-scripts`. */
export const scriptColumns: readonly string[] = ['script', 'script_binary'];

export const tableColumns: TableColumns = {
  blocks: [
    column('height', 'integer', 'Height of the block.', ({ height }) => height),
    column('id', 'text', 'Id of the block, hex.', ({ id }) => id, { isScattered: true }),
    column('parent_id', 'text', 'Id of the block below, hex.', ({ parentId }) => parentId, {
      isScattered: true,
    }),
    column('timestamp', 'time', 'When the block was made; null where it does not say.', timestamp, {
      isNullable: true,
    }),
    column(
      'timestamp_nanos',
      'small',
      'Nanoseconds to add to `timestamp`, 0 to 999: blocks have nanoseconds, tables microseconds.',
      ({ time }) => time?.nanoseconds ?? null,
      { isNullable: true },
    ),
    column('collection_count', 'small', 'Collections of the block.', ({ collections }) => collections.length),
    column('transaction_count', 'small', 'Transactions of all of them.', ({ transactions }) => transactions),
  ],
  collections: [
    column('id', 'text', 'Id of the collection, hex. One may be in several blocks.', ({ id }) => id, {
      isScattered: true,
    }),
    ...ofBlock<CollectionRow>(),
    column('collection_index', 'small', 'Place in the block, from 0.', ({ index }) => index),
    column(
      'transaction_count',
      'small',
      'Transactions of the collection.',
      ({ transactions }) => transactions,
    ),
  ],
  transactions: [
    body('id', 'text', 'Id of the transaction, hex. One may be at several places.', ({ id }) => id, {
      isScattered: true,
    }),
    ...ofBlock<TransactionRow>(),
    column('collection_id', 'text', 'Id of its collection, hex.', ({ line }) => line.collection_id),
    column(
      'collection_index',
      'small',
      'Place of the collection in the block, from 0.',
      ({ line }) => line.collection_index,
    ),
    column(
      'transaction_index',
      'small',
      'Place in the collection, from 0.',
      ({ line }) => line.transaction_index,
    ),
    body('payer', 'text', 'Address, hex, 16 digits without 0x.', ({ payer }) => payer),
    body('proposer', 'text', 'Address, hex.', ({ proposal_key }) => proposal_key.address),
    body('proposer_key_index', 'integer', 'Index of the proposer’s key.', ({ proposal_key }) =>
      Number(proposal_key.key_index),
    ),
    body('proposer_sequence_number', 'unsigned', 'Sequence number of that key.', ({ proposal_key }) =>
      BigInt(proposal_key.sequence_number),
    ),
    body('authorizers', 'texts', 'Addresses, hex, in order.', ({ authorizers }) => authorizers),
    body(
      'reference_block_id',
      'text',
      'Id of the reference block, hex.',
      ({ reference_block_id }) => reference_block_id,
    ),
    body('gas_limit', 'unsigned', 'Limit of computation.', ({ gas_limit }) => BigInt(gas_limit)),
    column('script', 'text', 'Cadence; null where it is no text.', ({ scriptText }) => scriptText, {
      isNullable: true,
    }),
    column(
      'script_binary',
      'binary',
      'The script where it is no text (no UTF-8, or with a zero byte), else null.',
      ({ script, scriptText }) => (scriptText === null ? script : null),
      { isNullable: true },
    ),
    column(
      'script_sha256',
      'text',
      'SHA-256 of the script’s bytes, hex; there with `--no-scripts` too.',
      ({ scriptSha256 }) => scriptSha256,
    ),
    column(
      'arguments',
      'texts',
      'JSON-Cadence, one text each; null where one is no text.',
      ({ argumentTexts }) => argumentTexts,
      {
        isNullable: true,
      },
    ),
    column(
      'arguments_binary',
      'binaries',
      'All arguments where one is no text, else null.',
      (row) => (row.argumentTexts === null ? row.arguments : null),
      { isNullable: true },
    ),
    signatures('payload_signatures', 'Signatures of the payload.'),
    signatures('envelope_signatures', 'Signatures of the envelope.'),
  ],
};

type Traits = Partial<Pick<ColumnShape, 'isNullable' | 'isScattered'>>;

function column<Row>(
  name: string,
  type: ColumnType,
  doc: string,
  of: (row: Row) => Cell,
  traits: Traits = {},
): Column<Row> {
  return { name, type, doc, of, isNullable: false, isScattered: false, ...traits };
}

function timestamp({ time }: Pick<BlockRow, 'time'>): bigint | null {
  return time?.microseconds ?? null;
}

function ofBlock<Row extends { readonly block: BlockRow }>(): Column<Row>[] {
  return [
    column('height', 'integer', 'Height of its block.', ({ block }) => block.height),
    column('block_id', 'text', 'Id of its block, hex.', ({ block }) => block.id),
    column('timestamp', 'time', 'Of its block.', ({ block }) => timestamp(block), { isNullable: true }),
  ];
}

type Body = TransactionRow['line']['transaction'];

function body(name: string, type: ColumnType, doc: string, of: (body: Body) => Cell, traits: Traits = {}) {
  return column<TransactionRow>(name, type, doc, ({ line }) => of(line.transaction), traits);
}

function signatures(name: 'payload_signatures' | 'envelope_signatures', doc: string) {
  return body(name, 'signatures', doc, (of) => of[name].map(signatureCell), { isScattered: true });
}
