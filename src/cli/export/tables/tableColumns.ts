import type { Cell, Column, ColumnShape, ColumnType } from './column.js';
import type { BlockRow, CollectionRow } from './BlockRow.js';
import { paddedIdentifier, toAddress } from '../../../flow/index.js';
import type { Transaction, TransactionSignature } from '../../../flow/index.js';
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
    column('timestamp', 'time', ({ time }) => time.microseconds),
    column('timestamp_nanos', 'small', ({ time }) => time.nanoseconds),
    column('collection_count', 'small', ({ collections }) => collections.length),
    column('transaction_count', 'small', ({ transactions }) => transactions),
  ],
  collections: [
    column('id', 'text', ({ id }) => id, scattered),
    ...ofBlock<CollectionRow>(({ block }) => block),
    column('collection_index', 'small', ({ index }) => index),
    column('transaction_count', 'small', ({ transactions }) => transactions),
  ],
  transactions: [
    column('id', 'text', ({ id }) => id, scattered),
    ...ofBlock<TransactionRow>(({ collection }) => collection.block),
    column('collection_id', 'text', ({ collection }) => collection.id),
    column('collection_index', 'small', ({ collection }) => collection.index),
    column('transaction_index', 'small', ({ index }) => index),
    body('payer', 'text', ({ payer }) => toAddress(payer)),
    column('proposer', 'text', ({ proposer }) => proposer),
    body('proposer_key_index', 'integer', ({ proposalKey }) => proposalKey?.keyId ?? 0),
    body('proposer_sequence_number', 'unsigned', ({ proposalKey }) => proposalKey?.sequenceNumber ?? 0n),
    body('authorizers', 'texts', ({ authorizers }) => authorizers.map(toAddress)),
    body('reference_block_id', 'text', ({ referenceBlockId }) => paddedIdentifier(referenceBlockId)),
    body('gas_limit', 'unsigned', ({ gasLimit }) => gasLimit),
    column('script', 'text', ({ script }) => script.text, nullable),
    column('script_binary', 'binary', ({ script }) => (script.text === null ? script.bytes : null), nullable),
    column('script_sha256', 'text', ({ script }) => script.sha256),
    column('arguments', 'texts', ({ argumentTexts }) => argumentTexts, nullable),
    column(
      'arguments_binary',
      'binaries',
      (row) => (row.argumentTexts === null ? row.transaction.arguments.map(copyOf) : null),
      nullable,
    ),
    signatures('payload_signatures', ({ payloadSignatures }) => payloadSignatures),
    signatures('envelope_signatures', ({ envelopeSignatures }) => envelopeSignatures),
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

function ofBlock<Row>(blockOf: (row: Row) => BlockRow): Column<Row>[] {
  return [
    column('height', 'integer', (row) => blockOf(row).height),
    column('block_id', 'text', (row) => blockOf(row).id),
    column('timestamp', 'time', (row) => blockOf(row).time.microseconds),
  ];
}

function body(name: string, type: ColumnType, of: (transaction: Transaction) => Cell) {
  return column<TransactionRow>(name, type, ({ transaction }) => of(transaction));
}

function signatures(name: string, of: (transaction: Transaction) => readonly TransactionSignature[]) {
  return column<TransactionRow>(
    name,
    'signatures',
    ({ transaction }) => of(transaction).map(signatureCell),
    scattered,
  );
}

/** A view would keep its whole collection in memory. */
function copyOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes);
}
