import { createHash } from 'node:crypto';
import {
  accountsOf,
  decodeBlock,
  decodeTransaction,
  identifierBytes,
  paddedIdentifier,
  toAddress,
} from '../../../flow/index.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import { microsecondsOf } from '../tables/BlockRows.js';

const EPOCH_2000_MICROSECONDS = 946_684_800_000_000n;
const ID_BYTES = 32;

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

interface TransactionPlace {
  readonly height: number;
  readonly collectionIndex: number;
  readonly transactionIndex: number;
  readonly id: Uint8Array;
  readonly bodyOffset: number;
}

/**
 * The rows that some blocks must have, as texts like those of `verifyPostgres`. Derived from decoded blocks, not with the code
 * that writes the rows.
 */
export class ExpectedRows {
  /** Each as `table height row`. */
  readonly texts = new Set<string>();
  transactions = 0;

  add({ block, collections }: BlockEntry): void {
    const { height, id, parentId, encoded } = block;
    const before = this.transactions;
    let bodyOffset = 0;
    for (const [collectionIndex, collection] of collections.entries()) {
      const { ranges, transactionIds } = collection;
      const count = ranges.length / 2;
      const bytes = collection.encoded.length;
      const collectionId = hex(identifierBytes(collection.id));
      this.#note('collection', height, [collectionIndex, collectionId, count, bodyOffset, bytes]);
      for (let transactionIndex = 0; transactionIndex < count; transactionIndex += 1) {
        const start = ranges[2 * transactionIndex] as number;
        const length = ranges[2 * transactionIndex + 1] as number;
        this.#addTransaction(collection.encoded.subarray(start, start + length), {
          height,
          collectionIndex,
          transactionIndex,
          bodyOffset: bodyOffset + start,
          id: transactionIds.subarray(transactionIndex * ID_BYTES, (transactionIndex + 1) * ID_BYTES),
        });
      }
      bodyOffset += bytes;
    }
    const time = microsecondsOf(decodeBlock(encoded).timestamp) + EPOCH_2000_MICROSECONDS;
    const ids = [hex(identifierBytes(id)), hex(identifierBytes(parentId))];
    this.#note('block', height, [...ids, time, collections.length, this.transactions - before]);
  }

  #addTransaction(wire: Uint8Array, place: TransactionPlace): void {
    const { bodyOffset, collectionIndex, height, id, transactionIndex } = place;
    const decoded = decodeTransaction(wire);
    const { authorizers, gasLimit, payer, proposalKey, referenceBlockId, script } = decoded;
    this.transactions += 1;
    this.#note('transaction', height, [
      ...[collectionIndex, transactionIndex, hex(id), toAddress(payer)],
      ...[toAddress(proposalKey?.address ?? new Uint8Array()), proposalKey?.keyId ?? 0],
      proposalKey?.sequenceNumber ?? 0,
      `{${authorizers.map((each) => `"\\\\x${toAddress(each)}"`).join()}}`,
      createHash('sha256').update(script).digest('hex'),
      ...[paddedIdentifier(referenceBlockId), gasLimit, bodyOffset, wire.length],
      // The number of scripts with this hash.
      1,
    ]);
    for (const { address, roles } of accountsOf(wire)) {
      this.#note('account_transaction', height, [address, collectionIndex, transactionIndex, roles]);
    }
  }

  #note(table: string, height: number, values: readonly (string | number | bigint)[]): void {
    this.texts.add(`${table} ${height} ${values.join('|')}`);
  }
}
