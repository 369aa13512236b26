import type { AccessNode, AccessNodes } from '../access/index.js';
import type { Identifier } from '../flow/index.js';
import type { Logger } from '../observability/index.js';
import type { Backoff, Clock } from '../runtime/index.js';
import { ForkInspector } from './ForkInspector.js';
import type { Answer, StoredBlockReader } from './ForkInspector.js';
import type { LinkedBlocks, Watermark } from './LinkedBlocks.js';

/** Before so many rounds in a row, nodes that do not answer keep the mismatch from being called certain. */
const CERTAIN_AFTER_ROUNDS = 2;

/** The nodes' block above the watermark does not link to the latest stored block, and no node has one that does. */
export interface ParentMismatch {
  /** The height of the block that does not link: one above the watermark. */
  readonly height: number;
  /** The latest stored block. */
  readonly expectedParentId: Identifier;
  readonly blockId: Identifier;
  readonly givenParentId: Identifier;
  /** Monotonic milliseconds at which it was first certain. */
  readonly sinceMs: number;
  /** One or two sentences for the operator: what happened and the command that mends it. */
  readonly mend: string;
}

export type Resolution =
  /** This block links. */
  | { readonly kind: 'accept'; readonly answer: Answer }
  /** Read on after a pause, from other nodes than these if there are any. */
  | { readonly kind: 'retry'; readonly avoid: readonly string[]; readonly pauseMs: number };

/**
 * Decides who is wrong when a block does not name the one below it as its parent: the node that gave it, the node that
 * gave the one below (then that is taken back and read again), or our own store, whose last blocks a spork has discarded.
 * It never changes what is durable.
 */
export class ForkResolver {
  readonly #firstHeight: number;
  readonly #retryMs: number;
  readonly #nodes: AccessNodes;
  readonly #linked: LinkedBlocks;
  readonly #watermark: Watermark;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #backoff: Backoff;
  readonly #inspector: ForkInspector;
  #mismatch: ParentMismatch | undefined;
  #rounds = 0;

  constructor(
    options: { readonly firstHeight: number; readonly retryMs: number },
    dependencies: {
      readonly nodes: AccessNodes;
      readonly linked: LinkedBlocks;
      readonly watermark: Watermark;
      readonly clock: Clock;
      readonly logger: Logger;
      readonly backoff: Backoff;
      readonly storedBlock: StoredBlockReader | undefined;
    },
  ) {
    const { nodes, storedBlock } = dependencies;
    this.#firstHeight = options.firstHeight;
    this.#retryMs = options.retryMs;
    this.#nodes = nodes;
    this.#linked = dependencies.linked;
    this.#watermark = dependencies.watermark;
    this.#clock = dependencies.clock;
    this.#logger = dependencies.logger;
    this.#backoff = dependencies.backoff;
    this.#inspector = new ForkInspector({}, { nodes, storedBlock });
  }

  parentMismatch(): ParentMismatch | undefined {
    return this.#mismatch;
  }

  /** A block was linked: whatever was wrong with the watermark is over. */
  linkedAgain(): void {
    this.#rounds = 0;
    if (this.#mismatch === undefined) return;
    this.#logger.info({ height: this.#mismatch.height }, 'the latest stored block is confirmed again');
    this.#mismatch = undefined;
  }

  /** Asks every node about the height of a block that does not link. Expected errors: the signal's abort reason. */
  async resolve(refused: Answer, signal: AbortSignal): Promise<Resolution> {
    const height = refused.block.height;
    const { answers, complete } = await this.#inspector.ask(height, signal, [refused]);
    // The watermark may have moved while the nodes were asked: what does not link any more is simply read again.
    if (this.#linked.next !== height) return { kind: 'retry', avoid: [], pauseMs: 0 };

    const linking = answers.find(({ block }) => this.#linked.links(block));
    if (linking !== undefined) {
      for (const answer of answers) if (!this.#linked.links(answer.block)) this.#blame(answer);
      return { kind: 'accept', answer: linking };
    }
    if (this.#linked.giverOf(height - 1) !== undefined) return this.#questionBelow(refused, answers, signal);

    this.#rounds += 1;
    if (!complete && this.#rounds < CERTAIN_AFTER_ROUNDS) return this.#distrust(refused);
    await this.#expose(refused, signal);
    return { kind: 'retry', avoid: [], pauseMs: this.#retryMs };
  }

  /** The block below is not durable: if the nodes agree on another one there, it was a lie. */
  async #questionBelow(
    refused: Answer,
    answers: readonly Answer[],
    signal: AbortSignal,
  ): Promise<Resolution> {
    const below = refused.block.height - 1;
    // It is another one than ours: none of these answers links.
    const agreed = await this.#inspector.agreedParent(answers, signal);
    const held = this.#linked.jobAt(below)?.block;
    const giver = this.#linked.giverOf(below);
    if (giver === undefined || held === undefined || this.#linked.next !== below + 1)
      return { kind: 'retry', avoid: [], pauseMs: 0 };
    if (agreed === undefined) {
      // Between two sporks no node has both blocks: either giver may have lied.
      return this.#serves(refused.node, below) ? this.#distrust(refused) : this.#askAnother(refused);
    }

    this.#linked.takeBack(below);
    const liar = this.#nodes.forHeight(below).find((node) => node.name === giver);
    if (liar !== undefined) this.#blame({ node: liar, block: held });
    return { kind: 'retry', avoid: [giver], pauseMs: 0 };
  }

  #serves(node: AccessNode, height: number): boolean {
    return this.#nodes.forHeight(height).some(({ name }) => name === node.name);
  }

  #distrust(refused: Answer): Resolution {
    this.#blame(refused);
    return this.#askAnother(refused);
  }

  #askAnother(refused: Answer): Resolution {
    return { kind: 'retry', avoid: [refused.node.name], pauseMs: this.#backoff.nextMs() };
  }

  #blame({ node, block }: Answer): void {
    const detail = `block ${block.id} at height ${block.height} refused: parent_mismatch`;
    this.#nodes.blame(node, 'lied', detail);
    this.#logger.warn(
      { node: node.name, height: block.height, reason: 'parent_mismatch' },
      'a block was refused',
    );
  }

  async #expose({ block }: Answer, signal: AbortSignal): Promise<void> {
    const latest = this.#watermark.latestBlock();
    if (latest === undefined || this.#mismatch?.blockId === block.id) return;
    const lowest = this.#firstHeight;
    const confirmed = await this.#inspector.highestConfirmed(latest.height, lowest, signal);
    const target = confirmed ?? latest.height - 1;
    this.#mismatch = {
      height: block.height,
      expectedParentId: latest.id,
      blockId: block.id,
      givenParentId: block.parentId,
      sinceMs: this.#clock.monotonic(),
      mend:
        `Block ${block.id} at height ${block.height} names ${block.parentId} as its parent, not ${latest.id}, which is ` +
        `stored at height ${latest.height}: the network no longer has the latest stored blocks (a spork discarded them). ` +
        `Stop the daemon, run "flow-collection-indexer rewind --to ${target} --yes" on this data directory, and start it again.`,
    };
    const { height, mend } = this.#mismatch;
    // The one message with ids above the debug level: the operator has to see what he is about to give up.
    this.#logger.error({ height, mend }, 'no access node confirms the latest stored block');
  }
}
