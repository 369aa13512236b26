import { answerOf, UpstreamError } from '../../access/index.js';
import type { AccessNode, NodeTrouble, ReceivedBlock } from '../../access/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import { WorkSignal } from '../../jobqueue/index.js';
import { childOf, isAbort, sleep } from '../../runtime/index.js';
import { askForBlock } from './askForBlock.js';
import type { Answer } from './askForBlock.js';
import { BLOCK_CALL } from '../ports.js';
import type { ChainDependencies } from '../ports.js';

/** How long a witness may take to answer and to receive the block: nodes do not receive it all at once. */
const PATIENCE_MS = 1_000;
/** Pause before asking a witness that does not have the block yet again. */
const NOT_YET_MS = 200;
/** How long a node that reports its heads may take to report this one before it is asked. */
const REPORTED_WITHIN_MS = 100;
/** How many other nodes it takes to refute a block whose source does not answer. */
const WITNESSES_AGAINST = 2;
/** Pause before asking the nodes again for a block on which they disagree. */
const AGAIN_MS = 2_000;

type Parts = Pick<ChainDependencies, 'nodes' | 'clock' | 'reportedHead'> & {
  /** True while no block has followed or replaced it. */
  readonly isLast: (block: FinalizedBlock) => boolean;
  /** The last block is confirmed. */
  readonly onTrue: () => void;
  /** Every node that answers has another block there. */
  readonly onFalse: (lie: Answer) => void;
};

interface Check {
  readonly answer: Answer;
  readonly sinceMs: number;
  /** How often the nodes disagreed. */
  doubts: number;
  /** Nodes that answered with an error. */
  readonly failed: Set<string>;
  witness: string;
}

type Verdict = 'true' | 'false' | 'not_yet' | 'doubtful';

/**
 * Checks whether a streamed block is on the finalized chain while no child confirms it: streamed blocks have no status. A
 * head that another node reported confirms the block at no cost, as soon as it is reported; a node that does not report its
 * heads, or not in time, is asked, and another one in the place of a node that answers with an error. If there is no other
 * node, the source is believed unless the head that it reports contradicts the block. A node that does not answer delays the
 * block by at most `PATIENCE_MS`, once; if nodes disagree, the block waits for its child. Bounds: one block; one call at a
 * time, and one to each node when they disagree.
 */
export class TipCheck {
  readonly #deps: Parts;
  readonly #begun = new WorkSignal();
  /** Nodes that did not have the previous block in time: the check does not wait for them again. */
  readonly #late = new Set<string>();
  #check: Check | undefined;
  /** Ends the questions about the check in hand, and the pauses between them. */
  #asking: Pick<ReturnType<typeof childOf>, 'abort'> = new AbortController();

  constructor(parts: Parts) {
    this.#deps = parts;
  }

  /** Runs until the signal aborts. Expected errors: its abort reason. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      const check = this.#current();
      if (check === undefined) await this.#begun.wait(signal);
      else await this.#look(check, signal);
    }
  }

  /** This is now the last block. */
  begin(answer: Answer): void {
    const failed = new Set<string>();
    const witness = this.#witnessFor({ answer, failed });
    if (witness === undefined) return;
    const sinceMs = this.#deps.clock.monotonic();
    this.#check = { answer, sinceMs, doubts: 0, failed, witness: witness.name };
    this.#asking.abort();
    this.#begun.notify();
  }

  /** A node reported a head. */
  told(): void {
    const check = this.#current();
    if (check === undefined || this.#witnessFor(check) !== undefined) return;
    this.#check = undefined;
    this.#asking.abort();
    this.#deps.onTrue();
  }

  /** True while the last block must not be handed out before its child is known. */
  holds(): boolean {
    return this.#current() !== undefined;
  }

  /** The last block and the contradiction, if another node has a different block there. */
  trouble(): { readonly height: number; readonly trouble: NodeTrouble } | undefined {
    const check = this.#current();
    if (check === undefined || check.doubts === 0) return undefined;
    const { doubts, sinceMs, witness } = check;
    const { node, method, block } = check.answer;
    const said = `streamed a block ${block.height} that ${witness} does not call finalized`;
    return {
      height: block.height,
      trouble: { node: node.name, method, kind: 'invalid', said, count: doubts, sinceMs },
    };
  }

  #current(): Check | undefined {
    return this.#check !== undefined && this.#deps.isLast(this.#check.answer.block) ? this.#check : undefined;
  }

  async #look(check: Check, signal: AbortSignal): Promise<void> {
    const asking = (this.#asking = childOf(signal));
    const { clock, onFalse, onTrue } = this.#deps;
    try {
      if (this.#isReported(check)) await sleep(clock, REPORTED_WITHIN_MS, asking.signal);
      const verdict = await this.#verdict(check, asking.signal);
      if (this.#current() !== check) return;
      if (verdict === 'doubtful') check.doubts += 1;
      if (verdict === 'doubtful' || verdict === 'not_yet') {
        await sleep(clock, verdict === 'doubtful' ? AGAIN_MS : NOT_YET_MS, asking.signal);
        return;
      }
      this.#check = undefined;
      if (verdict === 'true') onTrue();
      else onFalse(check.answer);
    } catch (error) {
      if (signal.aborted || !isAbort(error)) throw error;
    } finally {
      asking.abort();
    }
  }

  /** True at first, if another node that reports its heads has reported the one below. */
  #isReported({ answer: { block, node }, sinceMs }: Check): boolean {
    const told = this.#deps.reportedHead(block.height - 1, node.name);
    const isReporting = told !== undefined && told.node !== node.name && !this.#late.has(told.node);
    return isReporting && this.#deps.clock.monotonic() - sinceMs < REPORTED_WITHIN_MS;
  }

  async #verdict(check: Check, signal: AbortSignal): Promise<Verdict> {
    const { block, node } = check.answer;
    const witness = this.#witnessFor(check);
    if (witness === undefined) return 'true';
    check.witness = witness.name;
    const known: Answer[] = [];
    if (check.doubts === 0) {
      const said = await this.#ask(witness, block.height, signal);
      const isLate = this.#deps.clock.monotonic() - check.sinceMs >= PATIENCE_MS;
      if (said === 'not_yet' && !isLate && !this.#late.has(witness.name)) return 'not_yet';
      if (said === 'not_yet') this.#late.add(witness.name);
      else this.#late.delete(witness.name);
      if (said === 'nothing' && !isLate && witness.name !== node.name) {
        check.failed.add(witness.name);
        return this.#verdict(check, signal);
      }
      if (typeof said === 'string') return 'true';
      const isFinalized = said.status !== 'unknown';
      // It confirms the block, or gives another one that it does not call finalized itself.
      if ((said.block.id === block.id) === isFinalized) return 'true';
      if (isFinalized) known.push({ node: witness, method: BLOCK_CALL, block: said.block });
    }
    const { answers, complete } = await askForBlock(this.#deps.nodes, block.height, signal, { known });
    const ids = new Set(answers.map((answer) => answer.block.id));
    if (ids.size !== 1) return 'doubtful';
    if (ids.has(block.id)) return complete ? 'true' : 'doubtful';
    if (complete || answers.length >= WITNESSES_AGAINST) return 'false';
    // One node against another: either may be the liar, unless the source's own call withdraws the block.
    const own = await this.#ask(node, block.height, signal);
    const isWithdrawn = typeof own !== 'string' && (own.status === 'unknown' || own.block.id !== block.id);
    return isWithdrawn ? 'false' : 'doubtful';
  }

  /** The node to ask; `undefined` when the block is not in doubt, or no other node can answer. */
  #witnessFor({ answer: { node, block }, failed }: Pick<Check, 'answer' | 'failed'>): AccessNode | undefined {
    const { nodes, reportedHead } = this.#deps;
    const able = nodes
      .forHeight(block.height, BLOCK_CALL)
      .filter((each) => each.supports(BLOCK_CALL) && each.delayMs(BLOCK_CALL) === 0);
    const others = able.filter(
      (each) => each.name !== node.name && !failed.has(each.name) && each.healthOf(BLOCK_CALL) === 'healthy',
    );
    const other = others.find(({ name }) => !this.#late.has(name)) ?? others[0];
    const reported = reportedHead(block.height, node.name);
    if (reported?.id === block.id && reported.node !== node.name) return undefined;
    const told = reportedHead(block.height);
    if (other !== undefined || told === undefined || told.id === block.id) return other;
    // Ask the source itself: its single call has a status.
    return able.find(({ name }) => name === node.name);
  }

  async #ask(
    node: AccessNode,
    height: number,
    signal: AbortSignal,
  ): Promise<ReceivedBlock | 'not_yet' | 'nothing'> {
    const options = { signal, timeoutMs: PATIENCE_MS };
    const answer = await answerOf(this.#deps.nodes, node, node.getBlockByHeight(height, options));
    if (!(answer instanceof UpstreamError)) return answer;
    return answer.kind === 'not_found' ? 'not_yet' : 'nothing';
  }
}
