import { setLogger } from '@grpc/grpc-js';
import type { Logger } from '../../observability/index.js';

/** Of one remark. */
const MAX_TEXT_CHARACTERS = 500;

/**
 * The gRPC library writes what it notices to standard error by itself, and the words of callers and nodes with it:
 * anybody could fill it, or forge lines. From here on its remarks are fields of our log, at the debug level. For the
 * whole process, as the library has no other way: for the composition root alone.
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
