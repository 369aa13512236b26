import { UpstreamError } from '../access/index.js';
import type { AccessNode, AccessNodes, NodeTrouble } from '../access/index.js';
import { WorkSignal } from '../jobqueue/index.js';
import { sleep } from '../runtime/index.js';
import type { Clock } from '../runtime/index.js';
import { BLOCK_CALL } from './blockSource.js';
import { childOf, wasAborted } from './cancellation.js';
import type { ChildSignal } from './cancellation.js';
import { faultOf } from './faults.js';
import type { Answer } from './ForkInspector.js';

/** A block at the tip is not held up for longer by nodes that do not answer. */
const PATIENCE_MS = 1_000;
/** How soon a block is looked at again that was not borne out. */
const AGAIN_MS = 2_000;

interface Check {
  readonly answer: Answer;
  readonly sinceMs: number;
  /** How often it was not borne out. */
  count: number;
  state: 'asked' | 'passed' | 'doubtful';
  /** The node that does not bear it out. */
  witness: string;
}

/**
 * Whether a block that came by stream is on the finalized chain, where no child is known yet that bears it out: a stream gives
 * blocks without a status. The best other node is asked for the block of that height, and the giver itself by the call, which has
 * one; whoever does not answer in time holds nothing up. A block that is not borne out waits for its child: the
 * parent links decide. Bounds: one block, two calls.
 */
export class TipCheck {
  readonly #nodes: AccessNodes;
  readonly #clock: Clock;
  readonly #onDecided: () => void;
  readonly #news = new WorkSignal();
  #current: Check | undefined;
  #call: ChildSignal | undefined;

  constructor(
    _options: object,
    dependencies: { readonly nodes: AccessNodes; readonly clock: Clock; readonly onDecided: () => void },
  ) {
    this.#nodes = dependencies.nodes;
    this.#clock = dependencies.clock;
    this.#onDecided = dependencies.onDecided;
  }

  /** Until the signal aborts. Expected errors: its abort reason. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#news.wait(signal);
      const check = this.#current;
      while (check !== undefined && check === this.#current && check.state !== 'passed')
        await this.#look(check, signal);
    }
  }

  /** This is the last block now. */
  begin(answer: Answer): void {
    this.end();
    this.#current = { answer, sinceMs: this.#clock.monotonic(), count: 0, state: 'asked', witness: '' };
    this.#news.notify();
  }

  /** The last block needs no check. */
  end(): void {
    this.#current = undefined;
    this.#call?.abort();
  }

  /** True while it is not to be handed out before its child is known. */
  holds(height: number): boolean {
    const check = this.#current;
    return check?.answer.block.height === height && check.state !== 'passed';
  }

  /** The block that is not borne out, and by whom. */
  trouble(): { readonly height: number; readonly trouble: NodeTrouble } | undefined {
    const check = this.#current;
    if (check?.state !== 'doubtful') return undefined;
    const { count, sinceMs, witness } = check;
    const { node, method, block } = check.answer;
    const said = `sent a block ${block.height} by its stream that ${witness} does not have on the finalized chain`;
    const trouble = { node: node.name, method, kind: 'invalid', said, count, sinceMs } as const;
    return { height: block.height, trouble };
  }

  async #look(check: Check, signal: AbortSignal): Promise<void> {
    const call = (this.#call = childOf(signal));
    try {
      check.state = await this.#verdict(check, call.signal);
      this.#onDecided();
      if (check.state === 'passed') return;
      check.count += 1;
      await sleep(this.#clock, AGAIN_MS, call.signal);
    } catch (error) {
      if (signal.aborted || !wasAborted(error, call.signal)) throw error;
    } finally {
      call.abort();
    }
  }

  async #verdict(check: Check, signal: AbortSignal): Promise<Check['state']> {
    const { node, block } = check.answer;
    const able = this.#nodes
      .forHeight(block.height, BLOCK_CALL)
      .filter((each) => each.supports(BLOCK_CALL) && each.delayMs(BLOCK_CALL) === 0);
    const other = able.find((each) => each.name !== node.name && each.healthOf(BLOCK_CALL) === 'healthy');
    const own = able.find(({ name }) => name === node.name);
    const witnesses = [other, own].filter((each) => each !== undefined);
    const said = await Promise.all(witnesses.map((each) => this.#bearsOut(each, check.answer, signal)));
    // The other node's word counts for more than what the giver says of itself.
    const at = said.findIndex((word) => word !== undefined);
    check.witness = witnesses[at]?.name ?? '';
    return said[at] === false ? 'doubtful' : 'passed';
  }

  /** `undefined` where it does not say. */
  async #bearsOut(node: AccessNode, { block }: Answer, signal: AbortSignal): Promise<boolean | undefined> {
    try {
      const received = await node.getBlockByHeight(block.height, { signal, timeoutMs: PATIENCE_MS });
      return received.status !== 'unknown' && received.block.id === block.id;
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      const fault = faultOf(error.kind);
      if (fault !== undefined) this.#nodes.blame(node, fault, error.message, BLOCK_CALL);
      return undefined;
    }
  }
}
