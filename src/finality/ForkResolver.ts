import type { AccessNode, AccessNodes } from '../access/index.js';
import type { Identifier } from '../flow/index.js';
import type { Logger } from '../observability/index.js';
import type { Backoff, Clock } from '../runtime/index.js';
import { ForkInspector } from './ForkInspector.js';
import type { Answer, StoredBlockReader } from './ForkInspector.js';
import type { LinkedBlocks, Watermark } from './LinkedBlocks.js';

/** Before so many rounds in a row, nodes that do not answer keep the mismatch from being called certain. */
const CERTAIN_AFTER_ROUNDS = 2;

/** Nothing goes on, and it lies neither with the connections nor with us. */
export interface ChainTrouble {
  /** The height at which nothing is accepted. */
  readonly height: number;
  /** Monotonic milliseconds at which it was first certain. */
  readonly sinceMs: number;
  /** One or two sentences for the operator: what happened and what mends it. */
  readonly mend: string;
}

/** The nodes' block above the watermark does not link to the latest stored block, and no node has one that does. */
export interface ParentMismatch extends ChainTrouble {
  /** The latest stored block. */
  readonly expectedParentId: Identifier;
  readonly blockId: Identifier;
  readonly givenParentId: Identifier;
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
  #missingEnd: ChainTrouble | undefined;
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

  /** Set while every node that answers has another last block of a spork than the spork table vouches for. */
  missingEnd(): ChainTrouble | undefined {
    return this.#missingEnd;
  }

  /** A block was linked: whatever was wrong with the watermark is over. */
  linkedAgain(): void {
    this.#rounds = 0;
    if (this.#missingEnd !== undefined) {
      this.#logger.info({ height: this.#missingEnd.height }, 'the last block of the spork is found');
      this.#missingEnd = undefined;
    }
    if (this.#mismatch === undefined) return;
    this.#logger.info({ height: this.#mismatch.height }, 'the latest stored block is confirmed again');
    this.#mismatch = undefined;
  }

  /** Asks every node about the height of a block that does not link. Expected errors: the signal's abort reason. */
  async resolve(refused: Answer, signal: AbortSignal): Promise<Resolution> {
    const height = refused.block.height;
    const { answers: given, complete } = await this.#inspector.ask(height, signal, [refused]);
    // The watermark may have moved while the nodes were asked: what does not link any more is simply read again.
    if (this.#linked.next !== height) return { kind: 'retry', avoid: [], pauseMs: 0 };

    const answers = given.filter(({ block }) => this.#linked.mayStand(block));
    for (const answer of given) if (!answers.includes(answer)) this.#blame(answer, 'not_vouched');
    const [first = refused] = answers;
    if (answers.length === 0) return this.#awaitEnd(refused, complete);
    const linking = answers.find(({ block }) => this.#linked.links(block));
    if (linking !== undefined) {
      for (const answer of answers) if (!this.#linked.links(answer.block)) this.#blame(answer);
      return { kind: 'accept', answer: linking };
    }
    if (this.#linked.giverOf(height - 1) !== undefined) return this.#questionBelow(first, answers, signal);

    this.#rounds += 1;
    if (!complete && this.#rounds < CERTAIN_AFTER_ROUNDS) return this.#distrust(first);
    await this.#expose(first, signal);
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

  #blame({ node, block }: Answer, reason: 'parent_mismatch' | 'not_vouched' = 'parent_mismatch'): void {
    const detail = `block ${block.id} at height ${block.height} refused: ${reason}`;
    this.#nodes.blame(node, 'lied', detail);
    this.#logger.warn({ node: node.name, height: block.height, reason }, 'a block was refused');
  }

  /** Nobody who answers has the block that the spork table vouches for: that one, or none. */
  #awaitEnd(refused: Answer, complete: boolean): Resolution {
    const { height } = refused.block;
    this.#rounds += 1;
    if (this.#missingEnd === undefined && (complete || this.#rounds >= CERTAIN_AFTER_ROUNDS)) {
      const root = height + 1;
      this.#missingEnd = {
        height,
        sinceMs: this.#clock.monotonic(),
        mend:
          `No access node has block ${this.#linked.vouchedAt(height) ?? ''} at height ${height}, which the spork table names as ` +
          `the parent of the root block at height ${root}: those that answer have another one there. Name an access node ` +
          `that has it (--access-node). Should the root be known to name another parent than the block below it, set ` +
          `"rootParentIsBelow": false for it in config/sporks.json.`,
      };
      const { mend } = this.#missingEnd;
      this.#logger.error({ height, mend }, 'no access node has the last block of the spork');
    }
    return this.#askAnother(refused);
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
        `stored at height ${latest.height}: the network no longer has the latest stored blocks (${this.#linked.hasSporks ? 'a spork discarded them' : 'its chain was begun anew, or is another one'}). ` +
        `Stop the daemon, run "flow-collection-indexer rewind --to ${target} --yes" on this data directory, and start it again, or use another --data-dir.`,
    };
    const { height, mend } = this.#mismatch;
    // The one message with ids above the debug level: the operator has to see what he is about to give up.
    this.#logger.error({ height, mend }, 'no access node confirms the latest stored block');
  }
}
