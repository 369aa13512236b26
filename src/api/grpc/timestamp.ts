import { WireWriter } from '../../flow/index.js';
import type { Timestamp } from '../../flow/index.js';

/** `google.protobuf.Timestamp`. */
export function timestampMessage({ seconds, nanos }: Timestamp): Buffer {
  return new WireWriter().number(1, seconds).number(2, nanos).finish();
}
