import { Listeners } from '../../runtime/index.js';

export interface WindowEndsOptions {
  /** K: no height above watermark + K is ever worked on. */
  readonly windowHeights: number;
  /** Nothing above it is asked for. Default: no such height. */
  readonly stopHeight?: number | undefined;
}

export interface WindowEndsDependencies {
  readonly watermark: { latestIndexedHeight(): number };
  /** The finalized head; `undefined` until known. */
  finalizedHeight(): number | undefined;
  /** How much of the window may be begun, above 0. Whoever raises it calls `moved`. Default: all of it. */
  readonly share?: () => number;
}

/** A block counts once its child is known: in a window that is narrower than this, nothing would ever become ready. */
const LEAST_NARROWED_HEIGHTS = 2;

/**
 * The two ends of the window: the watermark below, the head above. Whoever moves one calls `moved`; whoever needs to
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

  /** The highest height that may be begun now. It goes down when the share does. */
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
