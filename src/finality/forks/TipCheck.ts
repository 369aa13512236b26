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
 * best other node is asked, and another one in the place of a node that answers with an error or does not have the block
 * yet. If there is no other node, the source is believed, unless the head that was reported is another block: its own call has a
 * status. A node that does not answer delays the block by at most `PATIENCE_MS`, once; if nodes disagree,
 * the block waits for its child. Bounds: one block; one call at a time, and one to each node when they disagree.
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
    if (this.#witnesses(answer).length === 0) return;
    const sinceMs = this.#deps.clock.monotonic();
    const { lacking = [], sinceMs: beforeMs = sinceMs } = this.#check ?? {};
    if (sinceMs - beforeMs >= OVERTAKEN_MS) for (const name of lacking) this.#late.add(name);
    this.#check = { answer, sinceMs, lacking: new Set() };
    this.#asking.abort();
    this.#begun.notify();
  }

  /** True while the last block must not be handed out before its child is known. */
  holds(): boolean {
    return this.#current() !== undefined;
  }

  #current(): Check | undefined {
    return this.#check !== undefined && this.#deps.isLast(this.#check.answer.block) ? this.#check : undefined;
  }

  async #look(check: Check, signal: AbortSignal): Promise<void> {
    const asking = (this.#asking = childOf(signal));
    const { clock, onDoubt, onFalse, onTrue } = this.#deps;
    try {
      const verdict = await this.#verdict(check, asking.signal);
      if (this.#current() !== check) return;
      if (verdict === 'doubtful') {
        const { height } = check.answer.block;
        onDoubt(check.answer, `streamed a block ${height} that ${check.doubtedBy} does not call finalized`);
      }
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

  async #verdict(check: Check, signal: AbortSignal): Promise<Verdict> {
    const { clock, nodes } = this.#deps;
    const { block } = check.answer;
    if (check.doubtedBy !== undefined) return this.#vote(check.answer, [], signal);
    let isAwaited = false;
    for (const witness of this.#witnesses(check.answer)) {
      const { name } = witness;
      const said = await askNode(nodes, witness, block.height, signal, PATIENCE_MS);
      const isLate = clock.monotonic() - check.sinceMs >= PATIENCE_MS;
      const lacksIt = said instanceof UpstreamError && said.kind === 'not_found';
      if (lacksIt && !isLate && !this.#late.has(name)) {
        isAwaited = true;
        check.lacking.add(name);
        continue;
      }
      if (lacksIt) this.#late.add(name);
      else this.#late.delete(name);
      if (said instanceof UpstreamError && !lacksIt && !isLate) continue;
      if (said instanceof UpstreamError || said?.block.id === block.id) return 'true';
      check.doubtedBy = name;
      return this.#vote(check.answer, said === undefined ? [] : [said], signal);
    }
    return isAwaited ? 'not_yet' : 'true';
  }

  /** What all nodes say of the height. */
  async #vote({ block, node }: Answer, known: readonly Answer[], signal: AbortSignal): Promise<Verdict> {
    const { answers, complete } = await askForBlock(this.#deps.nodes, block.height, signal, { known });
    const ids = new Set(answers.map((answer) => answer.block.id));
    if (ids.size !== 1) return 'doubtful';
    if (ids.has(block.id)) return complete ? 'true' : 'doubtful';
    if (complete || answers.length >= WITNESSES_AGAINST) return 'false';
    // One node against another: either may be the liar, unless the source's own call withdraws the block.
    const own = await askNode(this.#deps.nodes, node, block.height, signal, PATIENCE_MS);
    const isKept = own instanceof UpstreamError || own?.block.id === block.id;
    return isKept ? 'doubtful' : 'false';
  }

  /** Who may be asked now: the healthy other nodes, those last that were late, or the source itself (see above). */
  #witnesses({ node, block }: Answer): readonly AccessNode[] {
    const { headId, nodes } = this.#deps;
    const able = nodes
      .forHeight(block.height, BLOCK_CALL)
      .filter((each) => each.supports(BLOCK_CALL) && each.delayMs(BLOCK_CALL) === 0);
    const others = able.filter(({ name }) => name !== node.name);
    const healthy = others.filter((each) => each.healthOf(BLOCK_CALL) === 'healthy');
    if (healthy.length === 0 && (headId(block.height) ?? block.id) !== block.id)
      return able.filter(({ name }) => name === node.name);
    const late = healthy.filter(({ name }) => this.#late.has(name));
    return [...healthy.filter((each) => !late.includes(each)), ...late];
  }
}
