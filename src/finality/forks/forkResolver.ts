import { highestShared, UpstreamError, type NodeChooser } from '../../access/index.js';
import type { FinalizedBlock, Identifier } from '../../flow/index.js';
import { BLOCK_CALL, type ChainDependencies } from '../ports.js';
import { askForBlock, askNode, nodesToAsk, type Answer } from './askForBlock.js';
import type { LinkedBlocks } from './linkedBlocks.js';

/** How often the nodes are asked again while none confirms the latest stored block. */
const MISMATCH_RETRY_MS = 10_000;
/** After this many rounds a mismatch is certain, even if some nodes do not answer. */
const CERTAIN_AFTER_ROUNDS = 2;
/** Pause between them if all answered: a name may just have moved to another network, which a handshake will show. */
const CONFIRM_AFTER_MS = 2_000;

/** Why a block is refused, which is also the label of `invalid_blocks_total`, and what is reported about its node. */
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
  /** True where as many nodes contradict the block below ours as give it: one that does not link to it may be right. */
  readonly isDoubted: () => boolean;
  readonly linked: LinkedBlocks;
  readonly chooser: NodeChooser;
};

/**
 * Decides what is wrong when a block does not name the one below it as its parent: the node that gave it, the node that
 * gave the one below (which is then removed and read again), or our own store, whose last blocks a spork has discarded.
 * It never changes what is durable.
 */
export function forkResolver(parts: Parts) {
  const { chooser, clock, firstHeight, hasSporks, latestBlock, linked, logger, metrics, nodes } = parts;
  /** Refusals since a block was accepted. Bounded by the nodes that are asked for one height. */
  const logged = new Set<string>();
  let trouble: ChainTrouble | undefined;
  /** The block that does not link to the latest stored one. */
  let misfit: Identifier | undefined;
  let rounds = 0;

  /** A block was linked: any trouble is over. */
  const linkedAgain = (): void => {
    rounds = 0;
    if (logged.size > 0) logged.clear();
    if (trouble === undefined) return;
    const { code, height } = trouble;
    logger.info(
      { height },
      code === 'not_vouched'
        ? 'the last block of the spork is found'
        : 'the latest stored block is confirmed again',
    );
    trouble = misfit = undefined;
  };

  /**
   * Asks every node about the height of a block that does not link. Resolves with the answer to take, or with the pause
   * before the height is read again. Expected errors: the signal's abort reason.
   */
  const resolve = async (refused: Answer, signal: AbortSignal): Promise<Answer | number> => {
    const { node, method, block } = refused;
    const { height } = block;
    const isAcceptable = linked.isAcceptable(block);
    const reason = isAcceptable ? 'parent_mismatch' : 'not_vouched';
    metrics.invalidBlocks.inc({ endpoint: node.name, reason });
    // A node whose stream does not match may give another block in a single call.
    const { answers: asked, complete } = await ask(height, signal, method === BLOCK_CALL ? [refused] : []);
    // The watermark may have moved while the nodes were asked: a block that no longer links is simply read again.
    if (linked.next !== height) return 0;

    const given = asked.some((answer) => answer.node.name === node.name) ? asked : [refused, ...asked];
    const answers = given.filter((answer) => linked.isAcceptable(answer.block));
    for (const answer of given) if (!answers.includes(answer)) refuse(answer, 'not_vouched');
    if (answers.length === 0) return awaitEnd(refused, complete);
    const linking = answers.find((answer) => linked.links(answer.block));
    if (linking !== undefined) {
      const isDoubted = parts.isDoubted() && linked.at(height - 1) === undefined;
      // A node that gives the same block by stream and by call has lied once.
      const others = answers.filter((each) => each.node.name !== node.name || each.block.id !== block.id);
      for (const answer of isAcceptable ? [refused, ...others] : answers) {
        if (linked.links(answer.block)) continue;
        if (isDoubted) nameCause(answer, 'parent_mismatch');
        else refuse(answer, 'parent_mismatch');
      }
      return linking;
    }
    for (const answer of answers) nameCause(answer, 'parent_mismatch');
    const [first = refused] = isAcceptable ? [refused] : answers;
    if (linked.at(height - 1) !== undefined) return questionBelow(first, answers, signal);

    rounds += 1;
    if (rounds < CERTAIN_AFTER_ROUNDS) return complete ? CONFIRM_AFTER_MS : askAnother(first);
    await recordMismatch(first, signal);
    return MISMATCH_RETRY_MS;
  };

  /**
   * Refuses a block whatever others have; it is counted, and its node asked after the others. `awaited`: the requested height.
   * Returns the pause before that.
   */
  const drop = (answer: Answer, reason: 'orphaned' | 'wrong_height', awaited: number): number => {
    metrics.invalidBlocks.inc({ endpoint: answer.node.name, reason });
    return distrust(answer, reason, awaited);
  };

  /** A refused block counts against its node, is named as the cause of the delay, and is logged once until a block is accepted. */
  const refuse = (answer: Answer, reason: RefusalReason, awaited = answer.block.height): void => {
    const { node, method, block } = answer;
    nameCause(answer, reason, awaited);
    nodes.report(node, 'lied', `block ${block.id} at height ${block.height} refused: ${reason}`, method);
    // Of no height: a liar could name a new one each time, and a chain that is left is refused block by block.
    const key = `${node.name} ${reason}`;
    const fields = { node: node.name, height: block.height, reason };
    logger[logged.has(key) ? 'debug' : 'warn'](fields, 'a block was refused');
    logged.add(key);
  };

  /** Names the cause of the delay without reporting the node: our own blocks may be wrong. */
  const nameCause = (
    { node, method, block }: Answer,
    reason: RefusalReason,
    awaited = block.height,
  ): void => {
    const said = REFUSALS[reason](block.height, awaited);
    chooser.troubles.note(node.name, method, 'invalid', said);
  };

  /** The block below is not durable: if the nodes agree on another one, it was a lie, and is removed. */
  const questionBelow = async (
    refused: Answer,
    answers: readonly Answer[],
    signal: AbortSignal,
  ): Promise<number> => {
    const below = refused.block.height - 1;
    const { answers: lower } = await ask(below, signal);
    // The agreed block cannot be ours: none of these answers links to ours.
    const agreed = agreedParent(below, lower, answers);
    const { block, blockSource } = linked.at(below) ?? {};
    if (blockSource === undefined || block === undefined || linked.next !== below + 1) return 0;
    if (agreed === undefined) {
      // Either source may have lied. It is certain only of a node whose block below is not the parent that it names.
      const { node, block: above } = refused;
      const isRefuted = lower.some(
        (each) => each.node.name === node.name && each.block.id !== above.parentId,
      );
      return isRefuted ? distrust(refused) : askAnother(refused);
    }
    linked.takeBack(below);
    const liar = nodes.forHeight(below).find(({ name }) => name === blockSource.name);
    if (liar !== undefined) distrust({ node: liar, method: blockSource.method, block });
    return 0;
  };

  /** Every node's block; the chooser's troubles record why a node does not answer. */
  const ask = (height: number, signal: AbortSignal, known: readonly Answer[] = []) =>
    askForBlock(nodes, height, signal, { known, onFailure: (error) => chooser.troubles.failed(error) });

  /**
   * The block on which the nodes agree below `upper`, which are answers for one height. A node counts only if its two
   * answers fit together: one whose upper block is not a child of its lower block contradicts itself. A node that does not
   * serve the upper height (its spork ends here) counts when any answer there is a child of its block.
   * `undefined` when no node counts, or when they do not all name the same block.
   */
  const agreedParent = (height: number, lower: readonly Answer[], upper: readonly Answer[]) => {
    const serving = new Set(nodes.forHeight(height + 1).map(({ name }) => name));
    const consistent = lower.filter(({ node, block }) =>
      upper.some(
        (above) =>
          above.block.parentId === block.id && (above.node.name === node.name || !serving.has(node.name)),
      ),
    );
    const first = consistent[0]?.block;
    return consistent.every(({ block }) => block.id === first?.id) ? first : undefined;
  };

  const distrust = (answer: Answer, reason: RefusalReason = 'parent_mismatch', awaited?: number): number => {
    refuse(answer, reason, awaited);
    return askAnother(answer);
  };

  const askAnother = (refused: Answer): number => {
    chooser.failed(refused, `sent block ${refused.block.height}, which was refused`);
    return chooser.pauseMs();
  };

  /** No node that answers has the block that the spork table confirms: waits for it, and accepts no other. */
  const awaitEnd = (refused: Answer, complete: boolean): number => {
    const { height } = refused.block;
    rounds += 1;
    const isCertain = complete || rounds >= CERTAIN_AFTER_ROUNDS;
    if (isCertain && trouble?.code !== 'not_vouched')
      isStuck('no access node has the last block of the spork', {
        code: 'not_vouched',
        height,
        what:
          `No access node has block ${linked.confirmedAt(height) ?? ''} at height ${height}, which the spork table names as ` +
          `the parent of the root block at height ${height + 1}`,
        fix:
          `the nodes that answer have another block there. Name an access node that has it (--access-node). If the ` +
          `parent of the root is known not to be the block below it, set "rootParentIsBelow": false for the root in ` +
          `config/sporks.json.`,
      });
    return askAnother(refused);
  };

  /** Records the mismatch, with the height to rewind to. */
  const recordMismatch = async ({ block }: Answer, signal: AbortSignal): Promise<void> => {
    const { id, height, parentId } = block;
    const latest = latestBlock();
    if (latest === undefined || misfit === id) return;
    const target = (await highestConfirmed(latest.height, signal)) ?? latest.height - 1;
    misfit = id;
    // The one message with ids above the debug level: the operator must see which blocks a rewind would delete.
    isStuck('no access node confirms the latest stored block', {
      code: 'parent_mismatch',
      height,
      what:
        `Block ${id} at height ${height} names ${parentId} as its parent, not ${latest.id}, which is ` +
        `stored at height ${latest.height}`,
      fix: causeAndFix(target),
    });
  };

  const isStuck = (message: string, found: Omit<ChainTrouble, 'sinceMs'>): void => {
    const { height, what, fix } = found;
    trouble = { ...found, sinceMs: clock.monotonic() };
    logger.error({ height, fix: `${what}: ${fix}` }, message);
  };

  /**
   * The highest stored height below the watermark whose block the nodes still have, if found. Where no node serves the
   * height (its spork came before theirs), the last block is confirmed as the parent of the first one that is served.
   */
  const highestConfirmed = async (watermark: number, signal: AbortSignal): Promise<number | undefined> => {
    /** Nodes that did not answer in time, and are not asked again. */
    const silent = new Set<string>();
    /** The block of the best node that has one. */
    const anyBlock = async (height: number): Promise<FinalizedBlock | undefined> => {
      for (const node of nodesToAsk(nodes, height).filter(({ name }) => !silent.has(name))) {
        const answer = await askNode(nodes, node, height, signal);
        if (answer !== undefined && !(answer instanceof UpstreamError)) return answer.block;
        if (answer?.kind === 'deadline') silent.add(node.name);
      }
      return undefined;
    };
    return highestShared({ firstHeight, differing: watermark }, async (height) => {
      const stored = await parts.storedBlock?.(height);
      if (stored === undefined) return undefined;
      const given = (await anyBlock(height))?.id ?? (await anyBlock(height + 1))?.parentId;
      return given === undefined ? undefined : given === stored.id;
    });
  };

  const causeAndFix = (target: number): string => {
    const freshStart = 'start with another --data-dir or --store';
    const rewind = `stop the daemon, run "flow-collection-indexer rewind --to ${target} --yes" with its --data-dir or --store, and start it again`;
    const cause = hasSporks
      ? 'the network no longer has the latest stored blocks (a spork discarded them)'
      : 'the access nodes serve another chain, or another history of it, than the index holds';
    // Nothing of a store that begins at 0 can be kept.
    return `${cause}. To go on, ${target < 0 ? freshStart : hasSporks ? rewind : `${rewind}; or ${freshStart}`}.`;
  };

  return { trouble: () => trouble, linkedAgain, resolve, drop };
}
