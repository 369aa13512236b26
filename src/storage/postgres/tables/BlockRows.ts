import { createHash } from 'node:crypto';
import {
  accountsOf,
  addressBytes,
  decodeBlock,
  decodeTransaction,
  identifierBytes,
  toAddress,
} from '../../../flow/index.js';
import type { Address, Timestamp, Transaction } from '../../../flow/index.js';
import { BlockEntryWriter } from '../../records/BlockEntryWriter.js';
import { parseBodyKey, Prefix } from '../../records/schema.js';
import type { BlockEntry } from '../../IndexStore.js';
import { byteaArray, int4Array, int8Array, textArray, timestampArray } from './arrays.js';
import type { Statement } from '../connection/PostgresDatabase.js';

const ID_BYTES = 32;
const EPOCH_2000_SECONDS = 946_684_800n;
/** What a timestamp of PostgreSQL can say: years 0 to 9999. */
const OLDEST_SECONDS = -62_135_596_800n;
const NEWEST_SECONDS = 253_402_300_799n;

interface Column<Row> {
  readonly name: string;
  readonly type: string;
  readonly encode: (rows: readonly Row[]) => Buffer;
  /** What is made of the element, where the column has another type. */
  readonly cast?: string;
}

interface Table<Row> {
  readonly name: string;
  readonly columns: readonly Column<Row>[];
  readonly suffix?: string;
}

export interface BlockRow {
  readonly height: number;
  readonly id: Uint8Array;
  readonly parentId: Uint8Array;
  readonly time: bigint | undefined;
  readonly collections: number;
  readonly transactions: number;
  readonly record: Buffer;
}
interface BodyRow {
  readonly height: number;
  readonly chunk: number;
  readonly value: Buffer;
}
export interface CollectionRow {
  readonly height: number;
  readonly collectionIndex: number;
  readonly id: Uint8Array;
  readonly transactions: number;
  readonly bodyOffset: number;
  readonly bytes: number;
}
export interface TransactionRow {
  readonly height: number;
  readonly collectionIndex: number;
  readonly transactionIndex: number;
  readonly id: Uint8Array;
  readonly payer: Address;
  readonly proposer: Address;
  readonly authorizers: readonly Address[];
  readonly scriptHash: Buffer;
  readonly bodyOffset: number;
  readonly bytes: number;
  readonly decoded: Transaction;
}
export interface AccountRow {
  readonly address: Address;
  readonly height: number;
  readonly collectionIndex: number;
  readonly transactionIndex: number;
  readonly roles: number;
}
interface ScriptRow {
  readonly hash: Buffer;
  readonly body: Uint8Array;
}

function int8<Row>(name: string, of: (row: Row) => number): Column<Row> {
  return { name, type: 'bigint', encode: (rows) => int8Array(rows.map(of)) };
}
function int4<Row>(name: string, of: (row: Row) => number): Column<Row> {
  return { name, type: 'integer', encode: (rows) => int4Array(rows.map(of)) };
}
function bytes<Row>(name: string, of: (row: Row) => Uint8Array): Column<Row> {
  return { name, type: 'bytea', encode: (rows) => byteaArray(rows.map(of)) };
}
/** In text, for what has no simple binary form. */
function text<Row>(name: string, cast: string, of: (row: Row) => string): Column<Row> {
  return { name, type: 'text', cast, encode: (rows) => textArray(rows.map(of)) };
}

const blockTable: Table<BlockRow> = {
  name: 'block',
  columns: [
    int8('height', (row) => row.height),
    bytes('id', (row) => row.id),
    bytes('parent_id', (row) => row.parentId),
    { name: 'time', type: 'timestamptz', encode: (rows) => timestampArray(rows.map(({ time }) => time)) },
    int4('collections', (row) => row.collections),
    int4('transactions', (row) => row.transactions),
    bytes('record', (row) => row.record),
  ],
};
const bodyTable: Table<BodyRow> = {
  name: 'body',
  columns: [
    int8('height', (row) => row.height),
    int4('chunk', (row) => row.chunk),
    bytes('value', (row) => row.value),
  ],
};
const collectionTable: Table<CollectionRow> = {
  name: 'collection',
  columns: [
    int8('height', (row) => row.height),
    int4('collection_index', (row) => row.collectionIndex),
    bytes('id', (row) => row.id),
    int4('transactions', (row) => row.transactions),
    int8('body_offset', (row) => row.bodyOffset),
    int4('bytes', (row) => row.bytes),
  ],
};
const transactionTable: Table<TransactionRow> = {
  name: 'transaction',
  columns: [
    int8('height', (row) => row.height),
    int4('collection_index', (row) => row.collectionIndex),
    int4('transaction_index', (row) => row.transactionIndex),
    bytes('id', (row) => row.id),
    bytes('payer', (row) => addressBytes(row.payer)),
    bytes('proposer', (row) => addressBytes(row.proposer)),
    int8('proposer_key', (row) => row.decoded.proposalKey?.keyId ?? 0),
    text('sequence_number', 'numeric', (row) => String(row.decoded.proposalKey?.sequenceNumber ?? 0n)),
    text('authorizers', 'bytea[]', (row) => `{${row.authorizers.map((each) => `"\\\\x${each}"`).join()}}`),
    bytes('script_hash', (row) => row.scriptHash),
    bytes('reference_block_id', (row) => row.decoded.referenceBlockId),
    text('gas_limit', 'numeric', (row) => String(row.decoded.gasLimit)),
    int8('body_offset', (row) => row.bodyOffset),
    int4('bytes', (row) => row.bytes),
  ],
};
const accountTable: Table<AccountRow> = {
  name: 'account_transaction',
  columns: [
    bytes('address', (row) => addressBytes(row.address)),
    int8('height', (row) => row.height),
    int4('collection_index', (row) => row.collectionIndex),
    int4('transaction_index', (row) => row.transactionIndex),
    int4('roles', (row) => row.roles),
  ],
};
const scriptTable: Table<ScriptRow> = {
  name: 'script',
  columns: [bytes('hash', (row) => row.hash), bytes('body', (row) => row.body)],
  suffix: ' ON CONFLICT DO NOTHING',
};

/** All rows of some blocks: what a commit writes, and what `verify` expects to find. */
export class BlockRows {
  readonly blocks: BlockRow[] = [];
  readonly collections: CollectionRow[] = [];
  readonly transactions: TransactionRow[] = [];
  readonly accounts: AccountRow[] = [];
  readonly #bodies: BodyRow[] = [];
  /** Each once, by its hash. */
  readonly #scripts = new Map<string, ScriptRow>();
  readonly #writer = new BlockEntryWriter();

  get scriptHashes(): readonly string[] {
    return [...this.#scripts.keys()];
  }

  add(entry: BlockEntry): void {
    const { height, id, parentId, encoded } = entry.block;
    let record = Buffer.alloc(0);
    this.#writer.put(entry, (key, value) => {
      const [prefix] = key;
      if (prefix === Prefix.block) record = Buffer.from(value);
      else if (prefix === Prefix.body) {
        this.#bodies.push({ height, chunk: parseBodyKey(key)?.chunk ?? 0, value: Buffer.from(value) });
      }
    });
    let bodyOffset = 0;
    let transactions = 0;
    for (const [collectionIndex, collection] of entry.collections.entries()) {
      const count = collection.ranges.length / 2;
      this.collections.push({
        ...{ height, collectionIndex, bodyOffset, transactions: count },
        id: identifierBytes(collection.id),
        bytes: collection.encoded.length,
      });
      for (let index = 0; index < count; index += 1) {
        const start = collection.ranges[2 * index] as number;
        const length = collection.ranges[2 * index + 1] as number;
        this.#addTransaction(collection.encoded.subarray(start, start + length), {
          ...{ height, collectionIndex, transactionIndex: index, bytes: length },
          id: collection.transactionIds.subarray(index * ID_BYTES, (index + 1) * ID_BYTES),
          bodyOffset: bodyOffset + start,
        });
      }
      bodyOffset += collection.encoded.length;
      transactions += count;
    }
    this.blocks.push({
      ...{ height, record, transactions },
      id: identifierBytes(id),
      parentId: identifierBytes(parentId),
      time: microsecondsOf(decodeBlock(encoded).timestamp),
      collections: entry.collections.length,
    });
  }

  /** `isKnown`: true for a script that is stored for sure. */
  *statements(isKnown: (hash: string) => boolean): Generator<Statement> {
    yield* insert(blockTable, this.blocks);
    yield* insert(bodyTable, this.#bodies);
    yield* insert(collectionTable, this.collections);
    yield* insert(transactionTable, this.transactions);
    yield* insert(accountTable, this.accounts);
    const unknown = [...this.#scripts].filter(([hash]) => !isKnown(hash)).map(([, row]) => row);
    // In one order everywhere: two writers that add the same scripts wait for each other, and never in a circle.
    yield* insert(
      scriptTable,
      unknown.sort((left, right) => Buffer.compare(left.hash, right.hash)),
    );
  }

  #addTransaction(
    wire: Uint8Array,
    place: Pick<
      TransactionRow,
      'height' | 'collectionIndex' | 'transactionIndex' | 'id' | 'bodyOffset' | 'bytes'
    >,
  ): void {
    const { height, collectionIndex, transactionIndex } = place;
    const decoded = decodeTransaction(wire);
    const scriptHash = createHash('sha256').update(decoded.script).digest();
    this.transactions.push({
      ...{ ...place, decoded, scriptHash },
      payer: toAddress(decoded.payer),
      proposer: toAddress(decoded.proposalKey?.address ?? new Uint8Array()),
      authorizers: decoded.authorizers.map(toAddress),
    });
    const key = scriptHash.toString('hex');
    if (!this.#scripts.has(key)) this.#scripts.set(key, { hash: scriptHash, body: decoded.script });
    for (const { address, roles } of accountsOf(wire)) {
      this.accounts.push({ address, roles, height, collectionIndex, transactionIndex });
    }
  }
}

function* insert<Row>(
  { name, columns, suffix = '' }: Table<Row>,
  rows: readonly Row[],
): Generator<Statement> {
  if (rows.length === 0) return;
  const names = columns.map((column) => column.name).join(', ');
  const values = columns
    .map(({ name: its, cast }) => (cast === undefined ? its : `${its}::${cast}`))
    .join(', ');
  const arrays = columns.map(({ type }, index) => `$${index + 1}::${type}[]`).join(', ');
  yield {
    name: `insert_${name}`,
    text: `INSERT INTO flow_store.${name} (${names}) SELECT ${values} FROM unnest(${arrays}) AS given (${names})${suffix}`,
    values: columns.map(({ encode }) => encode(rows)),
  };
}

function microsecondsOf(timestamp: Timestamp | undefined): bigint | undefined {
  if (timestamp === undefined) return undefined;
  const { seconds, nanos } = timestamp;
  if (seconds < OLDEST_SECONDS || seconds > NEWEST_SECONDS) return undefined;
  return (seconds - EPOCH_2000_SECONDS) * 1_000_000n + BigInt(Math.floor(nanos / 1000));
}
