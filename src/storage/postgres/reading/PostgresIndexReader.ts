import { ok as assert } from 'node:assert/strict';
import { addressBytes, identifierBytes, toIdentifier } from '../../../flow/index.js';
import type { Identifier } from '../../../flow/index.js';
import type {
  AccountCoverage,
  AccountPage,
  AccountQuery,
  AccountTransaction,
  CollectionPlace,
  HeightRange,
  IndexReader,
  StoredBlock,
  StoredCollection,
  StoredTransaction,
  TransactionPlace,
} from '../../IndexStore.js';
import type { CollectionShape } from '../../records/codecs.js';
import { readBlock, readBody, readSlice } from '../../records/readRecords.js';
import type { ReadBlock } from '../../records/readRecords.js';
import { parseBlockKey, parseBodyKey } from '../../records/schema.js';
import type { Slice } from '../../records/schema.js';
import { corruptRecord } from '../../StorageError.js';
import type { Session } from '../connection/PostgresDatabase.js';

/** Entries of other roles that one page of an account skips at most; then the caller has to ask again. */
const MAX_EXAMINED = 2_000;
const ALL_ROLES = 7;

export interface PostgresIndexReaderDependencies {
  readonly session: Session;
  /** What can be read, at the moment of the call. */
  readonly coverage: () => readonly HeightRange[];
}

interface Pointer extends TransactionPlace {
  readonly slice: Slice;
}

interface PointerRow {
  readonly height: string;
  readonly collection_index: number;
  readonly transaction_index: number;
  readonly body_offset: string;
  readonly bytes: number;
}

/**
 * The read side of the port: rows lead to the stored bytes, which are checked as those of LevelDB are. What is covered
 * never changes, so each answer needs no snapshot.
 */
export class PostgresIndexReader implements Omit<
  IndexReader,
  'accounts' | 'coverage' | 'latestIndexedHeight'
> {
  readonly #session: Session;
  readonly #coverage: () => readonly HeightRange[];

  constructor({ session, coverage }: PostgresIndexReaderDependencies) {
    this.#session = session;
    this.#coverage = coverage;
  }

  async blockByHeight(height: number): Promise<StoredBlock | undefined> {
    const read = await this.#block(height);
    return read && { block: read.block, transactionCounts: read.transactionCounts };
  }

  async blockById(id: Identifier): Promise<StoredBlock | undefined> {
    const { rows } = await this.#session.query<{ height: string }>({
      name: 'block_by_id',
      text: 'SELECT height FROM flow_store.block WHERE id = $1 ORDER BY height',
      values: [identifierBytes(id)],
    });
    const height = rows.map((row) => Number(row.height)).find((each) => this.#covers(each));
    if (height === undefined) return undefined;
    const stored = await this.blockByHeight(height);
    if (stored !== undefined && stored.block.id !== id) {
      throw corruptRecord('row of the block', height, 'another block stands at its height');
    }
    return stored;
  }

  async collectionsByHeight(height: number): Promise<readonly StoredCollection[] | undefined> {
    const read = await this.#block(height);
    if (read === undefined) return undefined;
    const body = await readBody(this.#values, read, { offset: 0, length: read.bodyLength });
    let offset = 0;
    return read.block.collectionIds.map((id, collectionIndex) => {
      const end = offset + (read.shapes[collectionIndex] as CollectionShape).length;
      const encoded = body.subarray(offset, end);
      offset = end;
      return { id, place: { height, collectionIndex }, blockId: read.block.id, encoded };
    });
  }

  async collection(id: Identifier): Promise<StoredCollection | undefined> {
    const [pointer] = await this.#pointers('collection', id, 1);
    if (pointer === undefined) return undefined;
    const found = await this.#follow(pointer);
    if (found === undefined) return undefined;
    if (found.collectionId !== id) {
      throw corruptRecord('row of the collection', pointer.height, 'another collection stands at its place');
    }
    return { id, place: collectionPlace(pointer), blockId: found.blockId, encoded: found.encoded };
  }

  async collectionPlaces(id: Identifier, limit: number): Promise<readonly CollectionPlace[]> {
    return (await this.#pointers('collection', id, limit)).map(collectionPlace);
  }

  async transaction(id: Identifier): Promise<StoredTransaction | undefined> {
    const [pointer] = await this.#pointers('transaction', id, 1);
    if (pointer === undefined) return undefined;
    const found = await this.#follow(pointer);
    return found && { id, place: transactionPlace(pointer), ...found };
  }

  async transactionPlaces(id: Identifier, limit: number): Promise<readonly TransactionPlace[]> {
    return (await this.#pointers('transaction', id, limit)).map(transactionPlace);
  }

  /** As `AccountReader.page`, of the heights of `coverage`. */
  async accountPage(
    { address, roles, before, limit }: AccountQuery,
    coverage: AccountCoverage | undefined,
  ): Promise<AccountPage> {
    assert(coverage !== undefined, 'the account index is off');
    const top = { height: coverage.to + 1, collectionIndex: 0, transactionIndex: 0 };
    const below = before === undefined || before.height > coverage.to ? top : before;
    const most = roles === ALL_ROLES ? limit + 1 : limit + 1 + MAX_EXAMINED;
    const { rows } = await this.#session.query<AccountRow>({
      name: 'account_page',
      text: ACCOUNT_PAGE,
      values: [
        ...[addressBytes(address), below.height, below.collectionIndex, below.transactionIndex],
        ...[coverage.from, most, roles, limit + 1],
      ],
    });
    const all = rows.filter(({ matches }) => matches).map(accountTransaction);
    const transactions = all.slice(0, limit);
    if (all.length > limit) return { transactions, next: transactions.at(-1)?.place, coverage };
    // As many as were looked at: there may be more below the last one.
    const last = rows.find(({ matches }) => !matches);
    return { transactions, next: last && placeOf(last), coverage };
  }

  /** `undefined` outside the coverage. Expected errors: `StorageError` (`corrupt`), also for a hole in it. */
  async #block(height: number): Promise<ReadBlock | undefined> {
    if (!this.#covers(height)) return undefined;
    return this.#present(height, await readBlock(this.#values, height));
  }

  #present<T>(height: number, read: T | undefined): T | undefined {
    // Checked again: a rewind may have intervened.
    if (read === undefined && this.#covers(height))
      throw corruptRecord('block record', height, 'it is missing');
    return read;
  }

  /** Covered places of an id, the lowest first. */
  async #pointers(table: 'collection' | 'transaction', id: Identifier, limit: number): Promise<Pointer[]> {
    const { rows } = await this.#session.query<PointerRow>({
      name: `${table}_places`,
      text: PLACES[table],
      values: [identifierBytes(id), ...boundsOf(this.#coverage()), limit],
    });
    return rows.map(({ body_offset: offset, bytes: length, ...row }) => ({
      ...placeOf(row),
      slice: { offset: Number(offset), length },
    }));
  }

  /** In a buffer of its own, which does not pin the whole body. */
  async #follow({ height, collectionIndex, slice }: Pointer) {
    const found = this.#present(height, await readSlice(this.#values, height, slice));
    if (found === undefined) return undefined;
    const { block } = found.read;
    const collectionId = block.collectionIds[collectionIndex];
    if (collectionId === undefined) {
      throw corruptRecord('row', height, `its block has no collection ${collectionIndex}`);
    }
    return { blockId: block.id, collectionId, encoded: Buffer.from(found.encoded) };
  }

  #covers(height: number): boolean {
    return (
      Number.isSafeInteger(height) && this.#coverage().some(({ from, to }) => height >= from && height <= to)
    );
  }

  /** Records and bodies, under the keys that they have in LevelDB. */
  readonly #values = {
    get: async (key: Buffer): Promise<Buffer | undefined> => (await this.#values.getMany([key]))[0],
    getMany: async (keys: Buffer[]): Promise<(Buffer | undefined)[]> => {
      const asked = keys.map((key) => {
        const height = parseBlockKey(key);
        return height === undefined ? parseBodyKey(key) : { height, chunk: RECORD };
      });
      const height = asked[0]?.height;
      assert(asked.every((each) => each?.height === height) && height !== undefined, 'keys of one height');
      const { rows } = await this.#session.query<{ chunk: number; value: Buffer }>({
        name: 'values_of_height',
        text: VALUES,
        values: [height, asked.map((each) => each?.chunk)],
      });
      const values = new Map(rows.map(({ chunk, value }) => [chunk, value]));
      return asked.map((each) => (each === undefined ? undefined : values.get(each.chunk)));
    },
  };
}

/** Stands for a block's record among the chunks of its body. */
const RECORD = -1;

const VALUES = `
  SELECT ${RECORD} AS chunk, record AS value FROM flow_store.block WHERE height = $1 AND ${RECORD} = ANY ($2::integer[])
  UNION ALL
  SELECT chunk, value FROM flow_store.body WHERE height = $1 AND chunk = ANY ($2::integer[])`;

const PLACES = {
  collection: `
    SELECT height, collection_index, 0 AS transaction_index, body_offset, bytes FROM flow_store.collection
    WHERE id = $1 AND EXISTS (SELECT FROM unnest($2::bigint[], $3::bigint[]) AS covered (low, high)
      WHERE height BETWEEN low AND high)
    ORDER BY height, collection_index LIMIT $4`,
  transaction: `
    SELECT height, collection_index, transaction_index, body_offset, bytes FROM flow_store.transaction
    WHERE id = $1 AND EXISTS (SELECT FROM unnest($2::bigint[], $3::bigint[]) AS covered (low, high)
      WHERE height BETWEEN low AND high)
    ORDER BY height, collection_index, transaction_index LIMIT $4`,
} as const;

/**
 * The entries below a place, newest first: at most $6 are looked at, of which those that match, and the last one where that
 * many were there.
 */
const ACCOUNT_PAGE = `
  WITH entry AS MATERIALIZED (
    SELECT height, collection_index, transaction_index, roles FROM flow_store.account_transaction
    WHERE address = $1 AND height >= $5 AND height <= $2
      AND (height, collection_index, transaction_index) < ($2, $3, $4)
    ORDER BY height DESC, collection_index DESC, transaction_index DESC LIMIT $6
  ), found AS (
    SELECT *, true AS matches FROM entry WHERE (roles & $7) <> 0
    ORDER BY height DESC, collection_index DESC, transaction_index DESC LIMIT $8
  ), last AS (
    SELECT *, false AS matches FROM entry WHERE (SELECT count(*) FROM entry) = $6
    ORDER BY height, collection_index, transaction_index LIMIT 1
  )
  SELECT page.height, page.collection_index, page.transaction_index, roles, matches, transaction.id,
    block.id AS block_id, collection.id AS collection_id
  FROM (SELECT * FROM found UNION ALL SELECT * FROM last) AS page
    JOIN flow_store.transaction USING (height, collection_index, transaction_index)
    JOIN flow_store.collection USING (height, collection_index)
    JOIN flow_store.block USING (height)
  ORDER BY matches DESC, page.height DESC, page.collection_index DESC, page.transaction_index DESC`;

interface AccountRow extends Pick<PointerRow, 'height' | 'collection_index' | 'transaction_index'> {
  readonly roles: number;
  readonly matches: boolean;
  readonly id: Buffer;
  readonly block_id: Buffer;
  readonly collection_id: Buffer;
}

function accountTransaction(row: AccountRow): AccountTransaction {
  return {
    id: toIdentifier(row.id),
    place: placeOf(row),
    blockId: toIdentifier(row.block_id),
    collectionId: toIdentifier(row.collection_id),
    roles: row.roles,
  };
}

function placeOf(
  row: Pick<PointerRow, 'height' | 'collection_index' | 'transaction_index'>,
): TransactionPlace {
  return {
    height: Number(row.height),
    collectionIndex: row.collection_index,
    transactionIndex: row.transaction_index,
  };
}

function boundsOf(coverage: readonly HeightRange[]): [number[], number[]] {
  return [coverage.map(({ from }) => from), coverage.map(({ to }) => to)];
}

function collectionPlace({ height, collectionIndex }: Pointer): CollectionPlace {
  return { height, collectionIndex };
}

function transactionPlace({ height, collectionIndex, transactionIndex }: Pointer): TransactionPlace {
  return { height, collectionIndex, transactionIndex };
}
