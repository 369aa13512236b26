import { WireError } from '../WireError.js';
import type { WireReader } from '../wire/WireReader.js';
import { LENGTH_DELIMITED } from '../wire/WireReader.js';

/**
 * The most transactions taken from one message (a collection, or all chunks of a block). Flow's own limit is 100 in a
 * collection; without a bound, a message of empty transactions would cost fifty times its size in memory.
 */
const MAX_TRANSACTIONS = 100_000;

/** Counts the transactions taken from one message. */
export class TransactionLimit {
  #room = MAX_TRANSACTIONS;

  /** Appends field 1 of the message the reader stands in. Expected errors: `WireError`. */
  collect(reader: WireReader, into: Uint8Array[]): void {
    while (reader.next()) {
      if (reader.field === 1 && reader.wireType === LENGTH_DELIMITED) {
        if (this.#room-- <= 0)
          throw new WireError(`a message has more than ${MAX_TRANSACTIONS} transactions`);
        into.push(reader.view());
      } else {
        reader.skip();
      }
    }
  }
}
