import type { Cell, Column, ColumnShape, ColumnType } from './column.js';
import type { BlockRow, CollectionRow } from './BlockRow.js';
import { signatureCell } from './TransactionRow.js';
import type { TransactionRow } from './TransactionRow.js';

export const tableNames = ['blocks', 'collections', 'transactions'] as const;
export type TableName = (typeof tableNames)[number];

/** The columns of each table, in the order of a file. docs/export.md says what they hold. */
export interface TableColumns {
  readonly blocks: readonly Column<BlockRow>[];
  readonly collections: readonly Column<CollectionRow>[];
  readonly transactions: readonly Column<TransactionRow>[];
}

/** Left out by `--no-scripts`. */
export const scriptColumns: readonly string[] = ['script', 'script_binary'];

const nullable = { isNullable: true } as const;
const scattered = { isScattered: true } as const;

export const tableColumns: TableColumns = {
  blocks: [
    column('height', 'integer', ({ height }) => height),
    column('id', 'text', ({ id }) => id, scattered),
    column('parent_id', 'text', ({ parentId }) => parentId, scattered),
    column('timestamp', 'time', timestamp, nullable),
    column('timestamp_nanos', 'small', ({ time }) => time?.nanoseconds ?? null, nullable),
    column('collection_count', 'small', ({ collections }) => collections.length),
    column('transaction_count', 'small', ({ transactions }) => transactions),
  ],
  collections: [
    column('id', 'text', ({ id }) => id, scattered),
    ...ofBlock<CollectionRow>(),
    column('collection_index', 'small', ({ index }) => index),
    column('transaction_count', 'small', ({ transactions }) => transactions),
  ],
  transactions: [
    body('id', 'text', ({ id }) => id, scattered),
    ...ofBlock<TransactionRow>(),
    column('collection_id', 'text', ({ line }) => line.collection_id),
    column('collection_index', 'small', ({ line }) => line.collection_index),
    column('transaction_index', 'small', ({ line }) => line.transaction_index),
    body('payer', 'text', ({ payer }) => payer),
    body('proposer', 'text', ({ proposal_key }) => proposal_key.address),
    body('proposer_key_index', 'integer', ({ proposal_key }) => Number(proposal_key.key_index)),
    body('proposer_sequence_number', 'unsigned', ({ proposal_key }) => BigInt(proposal_key.sequence_number)),
    body('authorizers', 'texts', ({ authorizers }) => authorizers),
    body('reference_block_id', 'text', ({ reference_block_id }) => reference_block_id),
    body('gas_limit', 'unsigned', ({ gas_limit }) => BigInt(gas_limit)),
    column('script', 'text', ({ script }) => script.text, nullable),
    column('script_binary', 'binary', ({ script }) => (script.text === null ? script.bytes : null), nullable),
    column('script_sha256', 'text', ({ script }) => script.sha256),
    column('arguments', 'texts', ({ argumentTexts }) => argumentTexts, nullable),
    column(
      'arguments_binary',
      'binaries',
      (row) => (row.argumentTexts === null ? row.arguments : null),
      nullable,
    ),
    signatures('payload_signatures'),
    signatures('envelope_signatures'),
  ],
};

type Traits = Partial<Pick<ColumnShape, 'isNullable' | 'isScattered'>>;

function column<Row>(
  name: string,
  type: ColumnType,
  of: (row: Row) => Cell,
  traits: Traits = {},
): Column<Row> {
  return { name, type, of, isNullable: false, isScattered: false, ...traits };
}

function timestamp({ time }: Pick<BlockRow, 'time'>): bigint | null {
  return time?.microseconds ?? null;
}

function ofBlock<Row extends { readonly block: BlockRow }>(): Column<Row>[] {
  return [
    column('height', 'integer', ({ block }) => block.height),
    column('block_id', 'text', ({ block }) => block.id),
    column('timestamp', 'time', ({ block }) => timestamp(block), nullable),
  ];
}

type Body = TransactionRow['line']['transaction'];

function body(name: string, type: ColumnType, of: (body: Body) => Cell, traits: Traits = {}) {
  return column<TransactionRow>(name, type, ({ line }) => of(line.transaction), traits);
}

function signatures(name: 'payload_signatures' | 'envelope_signatures') {
  return body(name, 'signatures', (of) => of[name].map(signatureCell), scattered);
}
