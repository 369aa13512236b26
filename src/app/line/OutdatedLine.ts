import { OffChainBlockError, ParentLinkError } from '../../collections/index.js';
import type { Logger } from '../../observability/index.js';
import type { Lifecycle } from '../lifecycle/Lifecycle.js';

export interface OutdatedLineDependencies {
  readonly lifecycle: Pick<Lifecycle, 'fail'>;
  readonly logger: Logger;
}

/**
 * Distinguishes a line that must start over from one that failed: a node sent a false block, which was noticed only after
 * the block had been completed on top of the watermark.
 */
export class OutdatedLine {
  readonly #dependencies: OutdatedLineDependencies;
  #startOver: (reason: string) => void = () => undefined;
  /** Resolves with the reason why the line must start over. */
  readonly reason = new Promise<string>((resolve) => (this.#startOver = resolve));

  constructor(dependencies: OutdatedLineDependencies) {
    this.#dependencies = dependencies;
  }

  /** Judges the error that ended the line. */
  judge(error: unknown): void {
    const { lifecycle, logger } = this.#dependencies;
    if (error instanceof OffChainBlockError) {
      this.#startOver(`the block in hand at height ${error.height} is not on the finalized chain`);
    } else if (error instanceof ParentLinkError) {
      logger.debug({ height: error.height, error: error.message }, 'blocks do not link');
      this.#startOver(`the block at height ${error.height} does not continue the one below it`);
    } else lifecycle.fail(error);
  }
}
