import { decodeBlock, identifierBytes } from '../../../flow/index.js';
import type { Timestamp, VerifiedCollection } from '../../../flow/index.js';
import type { BlockEntryWriter } from '../../records/BlockEntryWriter.js';
import { parseBodyKey, Prefix } from '../../records/schema.js';
import type { BlockEntry } from '../../IndexStore.js';
import type { Statement } from '../connection/PostgresDatabase.js';
import { RowTable } from './RowTable.js';
import type { Script, Scripts } from './Scripts.js';
import { TransactionRows } from './TransactionRows.js';

const EPOCH_2000_SECONDS = 946_684_800n;
/** What a timestamp of PostgreSQL can say: years 0 to 9999. */
const OLDEST_SECONDS = -62_135_596_800n;
const NEWEST_SECONDS = 253_402_300_799n;

const blockShape = {
  name: 'block',
  columns: {
    height: 'bigint',
    id: 'bytea',
    parent_id: 'bytea',
    time: 'timestamptz',
    collections: 'integer',
    transactions: 'integer',
    record: 'bytea',
  },
} as const;
const bodyShape = {
  name: 'body',
  columns: { height: 'bigint', chunk: 'integer', value: 'bytea' },
} as const;
const collectionShape = {
  name: 'collection',
  columns: {
    height: 'bigint',
    collection_index: 'integer',
    id: 'bytea',
    transactions: 'integer',
    body_offset: 'bigint',
    bytes: 'integer',
  },
} as const;
const scriptShape = {
  name: 'script',
  columns: { hash: 'bytea', body: 'bytea' },
  suffix: ' ON CONFLICT DO NOTHING',
} as const;

/** All rows of some blocks, as a commit writes them. `verify` derives its own from what is stored. */
export class BlockRows {
  readonly #blocks = new RowTable(blockShape);
  readonly #bodies = new RowTable(bodyShape);
  readonly #collections = new RowTable(collectionShape);
  readonly #transactions: TransactionRows;
  readonly #writer: BlockEntryWriter;

  constructor({ scripts, writer }: { readonly scripts: Scripts; readonly writer: BlockEntryWriter }) {
    this.#transactions = new TransactionRows({ scripts });
    this.#writer = writer;
  }

  /** Of the transactions. */
  get scripts(): ReadonlySet<Script> {
    return this.#transactions.scripts;
  }

  add({ block, collections }: BlockEntry): void {
    const { height, id, parentId, encoded } = block;
    const { columns } = this.#blocks;
    this.#blocks.rows += 1;
    this.#writer.putBlock({ block, collections }, (key, value) => {
      if (key[0] === Prefix.block) columns.record.whole(value);
      else this.#addBody(height, parseBodyKey(key)?.chunk ?? 0, value);
    });
    let bodyOffset = 0;
    let transactions = 0;
    for (const [index, collection] of collections.entries()) {
      const count = collection.ranges.length / 2;
      this.#addCollection(collection, { height, index, bodyOffset, count });
      this.#transactions.add(collection, { height, collectionIndex: index, bodyOffset });
      bodyOffset += collection.encoded.length;
      transactions += count;
    }
    columns.height.int8(height);
    columns.id.whole(identifierBytes(id));
    columns.parent_id.whole(identifierBytes(parentId));
    columns.time.timestamp(microsecondsOf(decodeBlock(encoded).timestamp));
    columns.collections.int4(collections.length);
    columns.transactions.int4(transactions);
  }

  /** Scripts that are stored already are left out. */
  *statements(): Generator<Statement> {
    const tables = [
      this.#blocks,
      this.#bodies,
      this.#collections,
      ...this.#transactions.tables,
      this.#newScripts(),
    ];
    for (const table of tables) {
      const statement = table.statement();
      if (statement !== undefined) yield statement;
    }
  }

  #addBody(height: number, chunk: number, value: Buffer): void {
    const { columns } = this.#bodies;
    this.#bodies.rows += 1;
    columns.height.int8(height);
    columns.chunk.int4(chunk);
    columns.value.whole(value);
  }

  #addCollection(
    { id, encoded }: VerifiedCollection,
    place: {
      readonly height: number;
      readonly index: number;
      readonly bodyOffset: number;
      readonly count: number;
    },
  ): void {
    const { columns } = this.#collections;
    this.#collections.rows += 1;
    columns.height.int8(place.height);
    columns.collection_index.int4(place.index);
    columns.id.whole(identifierBytes(id));
    columns.transactions.int4(place.count);
    columns.body_offset.int8(place.bodyOffset);
    columns.bytes.int4(encoded.length);
  }

  /** In one order everywhere: two writers that add the same scripts wait for each other, and never in a circle. */
  #newScripts(): RowTable<'hash' | 'body'> {
    const table = new RowTable(scriptShape);
    const unknown = [...this.scripts].filter(({ isStored }) => !isStored);
    for (const { hash, body } of unknown.sort((left, right) => Buffer.compare(left.hash, right.hash))) {
      table.rows += 1;
      table.columns.hash.whole(hash);
      table.columns.body.whole(body);
    }
    return table;
  }
}

/** `undefined` for what a timestamp of PostgreSQL cannot say. */
export function microsecondsOf(timestamp: Timestamp | undefined): bigint | undefined {
  if (timestamp === undefined) return undefined;
  const { seconds, nanos } = timestamp;
  if (seconds < OLDEST_SECONDS || seconds > NEWEST_SECONDS) return undefined;
  return (seconds - EPOCH_2000_SECONDS) * 1_000_000n + BigInt(Math.floor(nanos / 1000));
}
