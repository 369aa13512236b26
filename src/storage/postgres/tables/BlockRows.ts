import { decodeBlock, identifierBytes, NO_TIME } from '../../../flow/index.js';
import type { Timestamp, VerifiedCollection } from '../../../flow/index.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import type { BlockEntryWriter } from '../../records/blocks/BlockEntryWriter.js';
import { parseBodyKey, Prefix } from '../../records/schema.js';
import type { Step } from '../connection/Session.js';
import { CopyRows } from './CopyRows.js';
import type { Script, Scripts } from './Scripts.js';
import { TransactionRows } from './TransactionRows.js';

const EPOCH_2000_SECONDS = 946_684_800n;

const BLOCK_COLUMNS = ['record', 'height', 'id', 'parent_id', 'time', 'collections', 'transactions'];
const BODY_COLUMNS = ['height', 'chunk', 'value'];
const COLLECTION_COLUMNS = ['height', 'collection_index', 'id', 'transactions', 'body_offset', 'bytes'];

/** All rows of some blocks, as a commit writes them. `verify` derives its own from the stored blocks. */
export class BlockRows {
  readonly #blocks = new CopyRows('block', BLOCK_COLUMNS);
  readonly #bodies = new CopyRows('body', BODY_COLUMNS);
  readonly #collections = new CopyRows('collection', COLLECTION_COLUMNS);
  readonly #transactions: TransactionRows;
  readonly #writer: BlockEntryWriter;

  constructor({ scripts, writer }: { readonly scripts: Scripts; readonly writer: BlockEntryWriter }) {
    this.#transactions = new TransactionRows({ scripts });
    this.#writer = writer;
  }

  /** The scripts of the transactions. */
  get scripts(): ReadonlySet<Script> {
    return this.#transactions.scripts;
  }

  add({ block, collections }: BlockEntry): void {
    const { height, id, parentId, encoded } = block;
    const rows = this.#blocks;
    rows.row();
    this.#writer.putBlock({ block, collections }, (key, value) => {
      if (key[0] === Prefix.block) rows.whole(value);
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
    rows.int8(height);
    rows.whole(identifierBytes(id));
    rows.whole(identifierBytes(parentId));
    rows.timestamp(microsecondsOf(decodeBlock(encoded).timestamp));
    rows.int4(collections.length);
    rows.int4(transactions);
  }

  /** The steps that write the rows. Scripts that are stored already are left out. */
  steps(): readonly Step[] {
    const steps = [...this.#tables.map((table) => table.step()), this.#newScripts()];
    return steps.filter((step) => step !== undefined);
  }

  /** Forgets the rows, once they are stored. */
  clear(): void {
    this.#transactions.clear();
    for (const table of this.#tables) table.clear();
  }

  get #tables(): readonly CopyRows[] {
    return [this.#blocks, this.#bodies, this.#collections, ...this.#transactions.tables];
  }

  #addBody(height: number, chunk: number, value: Buffer): void {
    const rows = this.#bodies;
    rows.row();
    rows.int8(height);
    rows.int4(chunk);
    rows.whole(value);
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
    const rows = this.#collections;
    rows.row();
    rows.int8(place.height);
    rows.int4(place.index);
    rows.whole(identifierBytes(id));
    rows.int4(place.count);
    rows.int8(place.bodyOffset);
    rows.int4(encoded.length);
  }

  /**
   * With INSERT, as COPY cannot skip scripts that others have stored. Sorted, so that two writers of the same scripts
   * never wait for each other in a circle.
   */
  #newScripts(): Step | undefined {
    const unknown = [...this.scripts].filter(({ isStored }) => !isStored);
    if (unknown.length === 0) return undefined;
    unknown.sort((left, right) => Buffer.compare(left.hash, right.hash));
    return {
      name: 'insert_script',
      text: `INSERT INTO flow_store.script (hash, body)
        SELECT hash, body FROM unnest($1::bytea[], $2::bytea[]) AS given (hash, body) ON CONFLICT DO NOTHING`,
      values: [arrayText(unknown.map(({ hash }) => hash)), arrayText(unknown.map(({ body }) => body))],
    };
  }
}

function arrayText(values: readonly Buffer[]): string {
  return `{${values.map((value) => `"\\\\x${value.toString('hex')}"`).join()}}`;
}

/** Since 2000. */
export function microsecondsOf({ seconds, nanos }: Timestamp = NO_TIME): bigint {
  return (seconds - EPOCH_2000_SECONDS) * 1_000_000n + BigInt(Math.floor(nanos / 1000));
}
