import { WireError } from './WireError.js';
import type { WireReader } from './wire/WireReader.js';
import { LENGTH_DELIMITED } from './wire/WireReader.js';
import { MAX_TRANSACTIONS } from './collection.js';

/** Counts the transactions taken from one message. */
export class TransactionLimit {
  #room: number;

  constructor(limit: number) {
    this.#room = limit;
  }

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
