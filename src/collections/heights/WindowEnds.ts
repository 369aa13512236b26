import { Listeners } from '../../runtime/index.js';

export interface WindowEndsOptions {
  /** K: no height above the watermark plus this is ever worked on. */
  readonly windowHeights: number;
  /** Nothing above it is asked for. Default: no such height. */
  readonly stopHeight?: number | undefined;
}

export interface WindowEndsDependencies {
  readonly watermark: { latestIndexedHeight(): number };
  /** The finalized head; `undefined` until a node has told it. */
  finalizedHeight(): number | undefined;
}

/**
 * The two ends of the window: the watermark below, the head above. Whoever moves one of them calls `moved`; whoever needs to
 * know subscribes with `onMoved`. Nobody is told in any other way.
 */
export class WindowEnds {
  readonly windowHeights: number;
  readonly #stopHeight: number | undefined;
  readonly #dependencies: WindowEndsDependencies;
  readonly #listeners = new Listeners();

  constructor(options: WindowEndsOptions, dependencies: WindowEndsDependencies) {
    this.windowHeights = options.windowHeights;
    this.#stopHeight = options.stopHeight;
    this.#dependencies = dependencies;
  }

  latestIndexedHeight(): number {
    return this.#dependencies.watermark.latestIndexedHeight();
  }

  /**
   * What there is to reach: the finalized head, or the stop height if that is lower. `undefined` until the head is
   * known.
   */
  target(): number | undefined {
    const head = this.#dependencies.finalizedHeight();
    return head === undefined ? undefined : Math.min(head, this.#stopHeight ?? head);
  }

  /** Watermark + K: no height above it is ever worked on. */
  limit(): number {
    return this.latestIndexedHeight() + this.windowHeights;
  }

  /** The highest height that may be worked on now. */
  upperBound(): number {
    return Math.min(this.limit(), this.target() ?? 0);
  }

  /** Calls the listener whenever the watermark or the head has moved. It must not throw. Returns a function that ends it. */
  onMoved(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  /** The watermark or the head has moved. */
  moved(): void {
    this.#listeners.tell();
  }
}
