import { OperatorError } from '../../../runtime/index.js';
import type { StoreMeta } from '../../port/stored.js';
import { PROOFS_SCHEMA_VERSION } from '../schema.js';

/** Where a store is, and which stores this program may use. */
export interface Usable {
  /** For messages. */
  readonly path: string;
  readonly chainId: string;
  readonly newestVersion?: number;
  /** What to choose instead of another chain's store, for messages. */
  readonly holder?: 'data directory' | 'database';
}

/**
 * Refuses a store that this program may not touch. Expected errors: `OperatorError`: `foreign` for a store of another
 * chain, `configuration` for one that a newer version wrote.
 */
export function checkMeta(
  meta: Pick<StoreMeta, 'schemaVersion' | 'chainId'>,
  { path, chainId, newestVersion = PROOFS_SCHEMA_VERSION, holder = 'data directory' }: Usable,
): void {
  if (meta.schemaVersion > newestVersion) {
    throw new OperatorError(
      'configuration',
      `The store at ${path} was written by a newer version of this program (schema ${meta.schemaVersion}, ` +
        `this one knows ${newestVersion}). Upgrade the program, or choose another ${holder}.`,
    );
  }
  if (meta.chainId !== chainId) {
    throw new OperatorError(
      'foreign',
      `The store at ${path} belongs to chain ${meta.chainId}, not to ${chainId}. ` +
        `Choose the matching network, or another ${holder}.`,
    );
  }
}
