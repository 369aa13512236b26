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

/**
 * The rows that a block must have, as texts like those of `verifyPostgres`: `table height row`. Derived from the decoded
 * block, not with the code that writes the rows.
 */
export function* expectedRows({ block, collections }: BlockEntry): Generator<string> {
  const { height, id, parentId, encoded } = block;
  const rowOf = (table: string, ...values: readonly (string | number | bigint)[]): string =>
    `${table} ${height} ${values.join('|')}`;
  let [bodyOffset, transactions] = [0, 0];
  for (const [collectionIndex, collection] of collections.entries()) {
    const { ranges, transactionIds } = collection;
    const count = ranges.length / 2;
    const bytes = collection.encoded.length;
    yield rowOf('collection', collectionIndex, hex(identifierBytes(collection.id)), count, bodyOffset, bytes);
    for (let index = 0; index < count; index += 1) {
      const start = ranges[2 * index] as number;
      const wire = collection.encoded.subarray(start, start + (ranges[2 * index + 1] as number));
      const { authorizers, gasLimit, payer, proposalKey, referenceBlockId, script } = decodeTransaction(wire);
      yield rowOf(
        'transaction',
        ...[collectionIndex, index, hex(transactionIds.subarray(index * ID_BYTES, (index + 1) * ID_BYTES))],
        ...[toAddress(payer), toAddress(proposalKey?.address ?? new Uint8Array()), proposalKey?.keyId ?? 0],
        proposalKey?.sequenceNumber ?? 0,
        `{${authorizers.map((each) => `"\\\\x${toAddress(each)}"`).join()}}`,
        createHash('sha256').update(script).digest('hex'),
        ...[paddedIdentifier(referenceBlockId), gasLimit, bodyOffset + start, wire.length],
        // The number of scripts with this hash.
        1,
      );
      for (const { address, roles } of accountsOf(wire))
        yield rowOf('account_transaction', address, collectionIndex, index, roles);
    }
    transactions += count;
    bodyOffset += bytes;
  }
  const time = microsecondsOf(decodeBlock(encoded).timestamp) + EPOCH_2000_MICROSECONDS;
  const ids = [id, parentId].map((each) => hex(identifierBytes(each)));
  yield rowOf('block', ...ids, time, collections.length, transactions);
}
