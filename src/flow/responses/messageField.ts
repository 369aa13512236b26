import { LENGTH_DELIMITED, WireReader } from '../wire/WireReader.js';
import { WireError } from '../WireError.js';

/**
 * Field 1 of a message, itself a singular message. Repeated occurrences are concatenated: protobuf's merge rule.
 * Expected errors: `WireError`, also when it is absent.
 */
export function messageField(message: Uint8Array, name: string): Uint8Array {
  const reader = new WireReader(message);
  let count = 0;
  let size = 0;
  let only: Uint8Array | undefined;
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === LENGTH_DELIMITED) {
      only = reader.view();
      count++;
      size += only.length;
    } else {
      reader.skip();
    }
  }
  if (only === undefined) throw new WireError(`the message holds no ${name}`);
  return count === 1 ? only : mergedField(message, size);
}

function mergedField(message: Uint8Array, size: number): Uint8Array {
  const merged = Buffer.allocUnsafe(size);
  const reader = new WireReader(message);
  let position = 0;
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === LENGTH_DELIMITED) {
      const part = reader.view();
      merged.set(part, position);
      position += part.length;
    } else {
      reader.skip();
    }
  }
  return merged;
}
