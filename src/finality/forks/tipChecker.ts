import { UpstreamError, type AccessNode } from '../../access/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import { WorkSignal } from '../../jobqueue/index.js';
import { childOf, isAbort, sleep } from '../../runtime/index.js';
import { askForBlock, askNode, type Answer } from './askForBlock.js';
import { BLOCK_CALL, type ChainDependencies } from '../ports.js';

/** How long a witness may take to answer and to receive the block: nodes do not receive it all at once. */
const PATIENCE_MS = 1_000;
/** A witness that lacks the block after this time, when the next one comes, is late: blocks may be less than a second apart. */
const OVERTAKEN_MS = PATIENCE_MS / 2;
/** Pause before asking again where no witness has the block yet. */
const NOT_YET_MS = 100;
/** How many other nodes it takes to refute a block whose source does not answer. */
const WITNESSES_AGAINST = 2;
/** Pause before asking the nodes again for a block on which they disagree. */
const AGAIN_MS = 2_000;

type Parts = Pick<ChainDependencies, 'nodes' | 'clock' | 'headId'> & {
  /** True while no block has followed or replaced it. */
  readonly isLast: (block: FinalizedBlock) => boolean;
  /** The last block is confirmed. */
  readonly onTrue: () => void;
  /** Another node has a different block there. `said`: what to say of the source. Called again while that stays so. */
  readonly onDoubt: (doubted: Answer, said: string) => void;
  /** Every node that answers has another block there. */
  readonly onFalse: (lie: Answer) => void;
};

interface Check {
  readonly answer: Answer;
  readonly sinceMs: number;
  /** The node that has a different block, while they disagree. */
  doubtedBy?: string;
  /** Nodes that did not have it yet. */
  readonly lacking: Set<string>;
}

type Verdict = 'true' | 'false' | 'not_yet' | 'doubtful';

/**
 * Checks whether a streamed block is on the finalized chain while no child confirms it: streamed blocks have no status. The
 * best other node is asked, and another one in place of a node that answers with an error or does not have the block
 * yet. If there is no other node, the source is believed, unless another block was reported as the head: then the source
 * is asked by a call, which has a status. A node that does not answer delays the block by at most `PATIENCE_MS`, once; if
 * nodes disagree, it waits for its child. Bounds: one block; one call at a time, and one to each node when they disagree.
 */
export function tipChecker({ clock, headId, isLast, nodes, onDoubt, onFalse, onTrue }: Parts) {
  const begun = new WorkSignal();
  /** Nodes that did not have the previous block in time: the check does not wait for them again. */
  const late = new Set<string>();
  let inHand: Check | undefined;
  /** Ends the questions about the check in hand, and the pauses between them. */
  let asking: Pick<ReturnType<typeof childOf>, 'abort'> = new AbortController();

  /** Runs until the signal aborts. Expected errors: its abort reason. */
  const run = async (signal: AbortSignal): Promise<void> => {
    for (;;) {
      const check = current();
      if (check === undefined) await begun.wait(signal);
      else await look(check, signal);
    }
  };

  /** This is now the last block. */
  const begin = (answer: Answer): void => {
    if (witnesses(answer).length === 0) return;
    const sinceMs = clock.monotonic();
    const { lacking = [], sinceMs: beforeMs = sinceMs } = inHand ?? {};
    if (sinceMs - beforeMs >= OVERTAKEN_MS) for (const name of lacking) late.add(name);
    inHand = { answer, sinceMs, lacking: new Set() };
    asking.abort();
    begun.notify();
  };

  /** True while the last block must not be handed out before its child is known. */
  const holds = (): boolean => current() !== undefined;

  const current = (): Check | undefined =>
    inHand !== undefined && isLast(inHand.answer.block) ? inHand : undefined;

  const look = async (check: Check, signal: AbortSignal): Promise<void> => {
    const questions = (asking = childOf(signal));
    try {
      const verdict = await judge(check, questions.signal);
      if (current() !== check) return;
      if (verdict === 'doubtful') {
        const { height } = check.answer.block;
        onDoubt(check.answer, `streamed a block ${height} that ${check.doubtedBy} does not call finalized`);
      }
      if (verdict === 'doubtful' || verdict === 'not_yet') {
        await sleep(clock, verdict === 'doubtful' ? AGAIN_MS : NOT_YET_MS, questions.signal);
        return;
      }
      inHand = undefined;
      if (verdict === 'true') onTrue();
      else onFalse(check.answer);
    } catch (error) {
      if (signal.aborted || !isAbort(error)) throw error;
    } finally {
      questions.abort();
    }
  };

  const judge = async (check: Check, signal: AbortSignal): Promise<Verdict> => {
    const { block } = check.answer;
    if (check.doubtedBy !== undefined) return vote(check.answer, [], signal);
    let isAwaited = false;
    for (const witness of witnesses(check.answer)) {
      const { name } = witness;
      const said = await askNode(nodes, witness, block.height, signal, PATIENCE_MS);
      const isLate = clock.monotonic() - check.sinceMs >= PATIENCE_MS;
      const lacksIt = said instanceof UpstreamError && said.kind === 'not_found';
      if (lacksIt && !isLate && !late.has(name)) {
        isAwaited = true;
        check.lacking.add(name);
        continue;
      }
      if (lacksIt) late.add(name);
      else late.delete(name);
      if (said instanceof UpstreamError && !lacksIt && !isLate) continue;
      if (said instanceof UpstreamError || said?.block.id === block.id) return 'true';
      check.doubtedBy = name;
      return vote(check.answer, said === undefined ? [] : [said], signal);
    }
    return isAwaited ? 'not_yet' : 'true';
  };

  /** What all nodes answer for the height. */
  const vote = async (
    { block, node }: Answer,
    known: readonly Answer[],
    signal: AbortSignal,
  ): Promise<Verdict> => {
    const { answers, complete } = await askForBlock(nodes, block.height, signal, { known });
    const ids = new Set(answers.map((answer) => answer.block.id));
    if (ids.size !== 1) return 'doubtful';
    if (ids.has(block.id)) return complete ? 'true' : 'doubtful';
    if (complete || answers.length >= WITNESSES_AGAINST) return 'false';
    // One node against another: either may be the liar, unless the source's own call withdraws the block.
    const own = await askNode(nodes, node, block.height, signal, PATIENCE_MS);
    const isKept = own instanceof UpstreamError || own?.block.id === block.id;
    return isKept ? 'doubtful' : 'false';
  };

  /** The nodes that may be asked now: healthy other nodes, late ones last, or the source itself (see above). */
  const witnesses = ({ node, block }: Answer): readonly AccessNode[] => {
    const able = nodes
      .forHeight(block.height, BLOCK_CALL)
      .filter((each) => each.supports(BLOCK_CALL) && each.delayMs(BLOCK_CALL) === 0);
    const others = able.filter(({ name }) => name !== node.name);
    const healthy = others.filter((each) => each.healthOf(BLOCK_CALL) === 'healthy');
    if (healthy.length === 0 && (headId(block.height) ?? block.id) !== block.id)
      return able.filter(({ name }) => name === node.name);
    return healthy.toSorted((a, b) => Number(late.has(a.name)) - Number(late.has(b.name)));
  };

  return { run, begin, holds };
}
