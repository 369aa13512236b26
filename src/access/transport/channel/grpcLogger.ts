import { setLogger } from '@grpc/grpc-js';
import type { Logger } from '../../../observability/index.js';

/** Longest text of one message. */
const MAX_TEXT_CHARACTERS = 500;

/**
 * By default the gRPC library writes to standard error, including text from callers and nodes: anybody could flood it,
 * or forge lines. This makes its messages fields of our log, at the debug level. The library offers this only for the
 * whole process: call it in the composition root only.
 */
export function redirectGrpcLog({ logger }: { readonly logger: Pick<Logger, 'debug'> }): void {
  const note = (...words: readonly unknown[]): void => {
    logger.debug(
      { text: words.map(String).join(' ').slice(0, MAX_TEXT_CHARACTERS) },
      'message of the gRPC library',
    );
  };
  setLogger({ error: note, info: note, debug: note });
}
