import { highestShared, UpstreamError, type NodeChooser } from '../../access/index.js';
import type { FinalizedBlock, Identifier } from '../../flow/index.js';
import { BLOCK_CALL, type ChainDependencies } from '../ports.js';
import { askForBlock, askNode, nodesToAsk, type Answer } from './askForBlock.js';
import type { LinkedBlocks } from './linkedBlocks.js';

/** How often the nodes are asked again while none confirms the latest stored block. */
const MISMATCH_RETRY_MS = 10_000;
/** After this many rounds a mismatch is certain, even if some nodes do not answer. */
const CERTAIN_AFTER_ROUNDS = 2;
/** Between them, where all have answered: a name may lead to another network since a moment ago, which a handshake is about to find. */
const CONFIRM_AFTER_MS = 2_000;

/** Why a block is refused, which is also the label of `invalid_blocks_total`, and what is said of its node. */
const REFUSALS = {
  orphaned: (height: number) => `sent block ${height} off the finalized chain`,
  wrong_height: (height: number, awaited: number) => `sent a block of height ${height} for height ${awaited}`,
  parent_mismatch: (height: number) => `sent block ${height}, which does not follow block ${height - 1}`,
  not_vouched: (height: number) => `sent another block ${height} than the spork table confirms`,
};
type RefusalReason = keyof typeof REFUSALS;

/** Indexing is stuck because of the chain itself, not because of connections or a bug. */
export interface ChainTrouble {
  /**
   * `parent_mismatch`: the nodes' block above the watermark does not link to the latest stored block, and no node has one that
   * does. `not_vouched`: every node that answers has another last block of a spork than the spork table confirms.
   */
  readonly code: 'parent_mismatch' | 'not_vouched';
  /** The height at which no block is accepted. */
  readonly height: number;
  /** Monotonic milliseconds at which it first became certain. */
  readonly sinceMs: number;
  readonly what: string;
  /** The cause, if known, and what to do: the rest of the sentence. */
  readonly fix: string;
}

type Parts = Pick<
  ChainDependencies,
  'nodes' | 'latestBlock' | 'clock' | 'logger' | 'metrics' | 'storedBlock'
> & {
  /** The lowest height of the store. */
  readonly firstHeight: number;
  readonly hasSporks: boolean;
  /** True where as many nodes contradict the block below ours as give it: what does not link to that may be true. */
  readonly isDoubted: () => boolean;
  readonly linked: LinkedBlocks;
  readonly chooser: NodeChooser;
};

/**
 * Decides who is wrong when a block does not name the one below it as its parent: the node that gave it, the node that
 * gave the one below (which is then removed and read again), or our own store, whose last blocks a spork has discarded.
 * It never changes what is durable.
 */
export class ForkResolver {
  readonly #parts: Parts;
  /** Refusals since a block was accepted. Bounded by the nodes that are asked for one height. */
  readonly #logged = new Set<string>();
  #trouble: ChainTrouble | undefined;
  /** The block that does not link to the latest stored one. */
  #misfit: Identifier | undefined;
  #rounds = 0;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  trouble(): ChainTrouble | undefined {
    return this.#trouble;
  }

  /** A block was linked: any trouble is over. */
  linkedAgain(): void {
    this.#rounds = 0;
    if (this.#logged.size > 0) this.#logged.clear();
    if (this.#trouble === undefined) return;
    const { code, height } = this.#trouble;
    this.#parts.logger.info(
      { height },
      code === 'not_vouched'
        ? 'the last block of the spork is found'
        : 'the latest stored block is confirmed again',
    );
    this.#trouble = this.#misfit = undefined;
  }

  /**
   * Asks every node about the height of a block that does not link. Resolves with the answer to take, or with the pause
   * before the height is read again. Expected errors: the signal's abort reason.
   */
  async resolve(refused: Answer, signal: AbortSignal): Promise<Answer | number> {
    const { linked, metrics } = this.#parts;
    const { node, method, block } = refused;
    const { height } = block;
    const isAcceptable = linked.isAcceptable(block);
    const reason = isAcceptable ? 'parent_mismatch' : 'not_vouched';
    metrics.invalidBlocks.inc({ endpoint: node.name, reason });
    // A node whose stream does not match may give another block in a single call.
    const { answers: asked, complete } = await this.#ask(
      height,
      signal,
      method === BLOCK_CALL ? [refused] : [],
    );
    // The watermark may have moved while the nodes were asked: a block that no longer links is simply read again.
    if (linked.next !== height) return 0;

    const given = asked.some((answer) => answer.node.name === node.name) ? asked : [refused, ...asked];
    const answers = given.filter((answer) => linked.isAcceptable(answer.block));
    for (const answer of given) if (!answers.includes(answer)) this.#refuse(answer, 'not_vouched');
    if (answers.length === 0) return this.#awaitEnd(refused, complete);
    const linking = answers.find((answer) => linked.links(answer.block));
    if (linking !== undefined) {
      const isDoubted = this.#parts.isDoubted() && linked.at(height - 1) === undefined;
      // A node that gives the same block by stream and by call has lied once.
      const others = answers.filter((each) => each.node.name !== node.name || each.block.id !== block.id);
      for (const answer of isAcceptable ? [refused, ...others] : answers) {
        if (linked.links(answer.block)) continue;
        if (isDoubted) this.#name(answer, 'parent_mismatch');
        else this.#refuse(answer, 'parent_mismatch');
      }
      return linking;
    }
    for (const answer of answers) this.#name(answer, 'parent_mismatch');
    const [first = refused] = isAcceptable ? [refused] : answers;
    if (linked.at(height - 1) !== undefined) return this.#questionBelow(first, answers, signal);

    this.#rounds += 1;
    if (this.#rounds < CERTAIN_AFTER_ROUNDS) return complete ? CONFIRM_AFTER_MS : this.#askAnother(first);
    await this.#recordMismatch(first, signal);
    return MISMATCH_RETRY_MS;
  }

  /**
   * Refuses a block whatever others have; it is counted, and its node asked after the others. `awaited`: the requested height.
   * Returns the pause before that.
   */
  drop(answer: Answer, reason: 'orphaned' | 'wrong_height', awaited: number): number {
    this.#parts.metrics.invalidBlocks.inc({ endpoint: answer.node.name, reason });
    this.#refuse(answer, reason, awaited);
    return this.#askAnother(answer);
  }

  /** A refused block counts against its node, is named as the cause of the delay, and is logged once until a block is accepted. */
  #refuse(answer: Answer, reason: RefusalReason, awaited = answer.block.height): void {
    const { logger, nodes } = this.#parts;
    const { node, method, block } = answer;
    this.#name(answer, reason, awaited);
    nodes.report(node, 'lied', `block ${block.id} at height ${block.height} refused: ${reason}`, method);
    // Of no height: a liar could name a new one each time, and a chain that is left is refused block by block.
    const key = `${node.name} ${reason}`;
    const fields = { node: node.name, height: block.height, reason };
    logger[this.#logged.has(key) ? 'debug' : 'warn'](fields, 'a block was refused');
    this.#logged.add(key);
  }

  /** Names the cause of the delay without reporting a node: our own blocks may be wrong. */
  #name({ node, method, block }: Answer, reason: RefusalReason, awaited = block.height): void {
    const said = REFUSALS[reason](block.height, awaited);
    this.#parts.chooser.troubles.note(node.name, method, 'invalid', said);
  }

  /** The block below is not durable: if the nodes agree on another one, it was a lie, and is removed. */
  async #questionBelow(refused: Answer, answers: readonly Answer[], signal: AbortSignal): Promise<number> {
    const { linked, nodes } = this.#parts;
    const below = refused.block.height - 1;
    const { answers: lower } = await this.#ask(below, signal);
    // The agreed block cannot be ours: none of these answers links to ours.
    const agreed = this.#agreedParent(below, lower, answers);
    const { block, blockSource } = linked.at(below) ?? {};
    if (blockSource === undefined || block === undefined || linked.next !== below + 1) return 0;
    if (agreed === undefined) {
      // Either source may have lied. Only who gives another block below than its own one names is known to.
      const { node, block: above } = refused;
      const isRefuted = lower.some(
        (each) => each.node.name === node.name && each.block.id !== above.parentId,
      );
      return isRefuted ? this.#distrust(refused) : this.#askAnother(refused);
    }
    linked.takeBack(below);
    const liar = nodes.forHeight(below).find(({ name }) => name === blockSource.name);
    if (liar !== undefined) this.#distrust({ node: liar, method: blockSource.method, block });
    return 0;
  }

  /** Every node's block; records in the chooser's troubles why one does not answer. */
  #ask(height: number, signal: AbortSignal, known: readonly Answer[] = []): ReturnType<typeof askForBlock> {
    const { chooser, nodes } = this.#parts;
    const onFailure = (error: UpstreamError): void => chooser.troubles.failed(error);
    return askForBlock(nodes, height, signal, { known, onFailure });
  }

  /**
   * The block on which the nodes agree below `upper`, which are answers for one height. A node counts only if its two
   * answers fit together: one whose upper block is not a child of its lower block contradicts itself. A node that does not
   * serve the upper height (its spork ends here) counts when any answer there is a child of its block.
   * `undefined` when no node counts, or when they do not all name the same block.
   */
  #agreedParent(height: number, lower: readonly Answer[], upper: readonly Answer[]) {
    const serving = new Set(this.#parts.nodes.forHeight(height + 1).map(({ name }) => name));
    const consistent = lower.filter(({ node, block }) =>
      upper.some(
        (above) =>
          above.block.parentId === block.id && (above.node.name === node.name || !serving.has(node.name)),
      ),
    );
    const first = consistent[0]?.block;
    return consistent.every(({ block }) => block.id === first?.id) ? first : undefined;
  }

  #distrust(refused: Answer): number {
    this.#refuse(refused, 'parent_mismatch');
    return this.#askAnother(refused);
  }

  #askAnother(refused: Answer): number {
    const { chooser } = this.#parts;
    chooser.failed(refused, `sent block ${refused.block.height}, which was refused`);
    return chooser.pauseMs();
  }

  /** No node that answers has the block that the spork table confirms: waits for it, and accepts no other. */
  #awaitEnd(refused: Answer, complete: boolean): number {
    const { height } = refused.block;
    this.#rounds += 1;
    const isCertain = complete || this.#rounds >= CERTAIN_AFTER_ROUNDS;
    if (isCertain && this.#trouble?.code !== 'not_vouched')
      this.#isStuck('no access node has the last block of the spork', {
        code: 'not_vouched',
        height,
        what:
          `No access node has block ${this.#parts.linked.confirmedAt(height) ?? ''} at height ${height}, which the spork table names as ` +
          `the parent of the root block at height ${height + 1}`,
        fix:
          `the nodes that answer have another block there. Name an access node that has it (--access-node). If the ` +
          `parent of the root is known not to be the block below it, set "rootParentIsBelow": false for the root in ` +
          `config/sporks.json.`,
      });
    return this.#askAnother(refused);
  }

  /** Records the mismatch, with the height to rewind to. */
  async #recordMismatch({ block }: Answer, signal: AbortSignal): Promise<void> {
    const { id, height, parentId } = block;
    const latest = this.#parts.latestBlock();
    if (latest === undefined || this.#misfit === id) return;
    const target = (await this.#highestConfirmed(latest.height, signal)) ?? latest.height - 1;
    this.#misfit = id;
    // The one message with ids above the debug level: the operator must see which blocks a rewind would delete.
    this.#isStuck('no access node confirms the latest stored block', {
      code: 'parent_mismatch',
      height,
      what:
        `Block ${id} at height ${height} names ${parentId} as its parent, not ${latest.id}, which is ` +
        `stored at height ${latest.height}`,
      fix: this.#causeAndFix(target),
    });
  }

  #isStuck(message: string, trouble: Pick<ChainTrouble, 'code' | 'height' | 'what' | 'fix'>): void {
    const { clock, logger } = this.#parts;
    const { height, what, fix } = trouble;
    this.#trouble = { ...trouble, sinceMs: clock.monotonic() };
    logger.error({ height, fix: `${what}: ${fix}` }, message);
  }

  /**
   * The highest stored height below the watermark whose block the nodes still have, as far as it is found. Where nobody serves
   * a height any more (those of the spork before the nodes' own), the last block is confirmed as the parent of the first one
   * that is served.
   */
  async #highestConfirmed(watermark: number, signal: AbortSignal): Promise<number | undefined> {
    const { firstHeight, nodes, storedBlock } = this.#parts;
    /** Nodes that did not answer in time, and are not asked again. */
    const mute = new Set<string>();
    /** The block of the best node that has one. */
    const anyBlock = async (height: number): Promise<FinalizedBlock | undefined> => {
      for (const node of nodesToAsk(nodes, height).filter(({ name }) => !mute.has(name))) {
        const answer = await askNode(nodes, node, height, signal);
        if (answer !== undefined && !(answer instanceof UpstreamError)) return answer.block;
        if (answer?.kind === 'deadline') mute.add(node.name);
      }
      return undefined;
    };
    return highestShared({ firstHeight, differing: watermark }, async (height) => {
      const stored = await storedBlock?.(height);
      if (stored === undefined) return undefined;
      const given = (await anyBlock(height))?.id ?? (await anyBlock(height + 1))?.parentId;
      return given === undefined ? undefined : given === stored.id;
    });
  }

  #causeAndFix(target: number): string {
    const { hasSporks } = this.#parts;
    const anew = 'start with another --data-dir or --store';
    const rewind = `stop the daemon, run "flow-collection-indexer rewind --to ${target} --yes" with its --data-dir or --store, and start it again`;
    const cause = hasSporks
      ? 'the network no longer has the latest stored blocks (a spork discarded them)'
      : 'the access nodes serve another chain, or another history of it, than the index holds';
    // Nothing of a store that begins at 0 can be kept.
    return `${cause}. To go on, ${target < 0 ? anew : hasSporks ? rewind : `${rewind}; or ${anew}`}.`;
  }
}
