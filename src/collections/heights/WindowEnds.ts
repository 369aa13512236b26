import { Listeners } from '../../runtime/index.js';

export interface WindowEndsOptions {
  /** K: no height above watermark + K is ever worked on. */
  readonly windowHeights: number;
  /** No height above it is worked on. Default: no limit. */
  readonly stopHeight?: number | undefined;
}

export interface WindowEndsDependencies {
  readonly watermark: { latestIndexedHeight(): number };
  /** The finalized head; `undefined` until known. */
  finalizedHeight(): number | undefined;
  /** The share of the window that may be used, above 0. Call `moved` after raising it. Default: all of it. */
  readonly share?: () => number;
}

/** A block counts once its child is known: in a narrower window no block would ever become ready. */
const LEAST_NARROWED_HEIGHTS = 2;

/**
 * The two ends of the window: the watermark below, the head above. Code that moves one calls `moved`; code that needs to
 * know subscribes with `onMoved`. There is no other notification.
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

  /** The finalized head, or the stop height if lower; `undefined` until the head is known. */
  target(): number | undefined {
    const head = this.#dependencies.finalizedHeight();
    return head === undefined ? undefined : Math.min(head, this.#stopHeight ?? head);
  }

  /** Watermark + K: no height above it is ever worked on. */
  limit(): number {
    return this.latestIndexedHeight() + this.windowHeights;
  }

  /** The highest height that may be begun now. It falls when the share falls. */
  upperBound(): number {
    return Math.min(this.latestIndexedHeight() + this.#narrowed(), this.target() ?? 0);
  }

  /**
   * Calls the listener whenever the watermark or the head has moved. It must not throw. Returns a function that
   * unsubscribes.
   */
  onMoved(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  /** The watermark, the head, or the share has moved. */
  moved(): void {
    this.#listeners.tell();
  }

  #narrowed(): number {
    const { share = () => 1 } = this.#dependencies;
    const heights = Math.floor(this.windowHeights * share());
    return Math.min(this.windowHeights, Math.max(LEAST_NARROWED_HEIGHTS, heights));
  }
}
