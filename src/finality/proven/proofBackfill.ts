import { answerOf, UpstreamError } from '../../access/index.js';
import type { AccessNodes, ReceivedBlock } from '../../access/index.js';
import { isSameBlock, type FinalizedBlock } from '../../flow/index.js';
import type { Logger } from '../../observability/index.js';
import { abortReason, asError, sleep, type Clock } from '../../runtime/index.js';
import { unlessDamaged, type FoundDamage, type HeightRange } from '../../storage/index.js';
import type { IndexStore, WriteRoom } from '../../storage/index.js';
import { BLOCK_CALL } from '../ports.js';

/** Blocks that are requested at once, and become durable together. */
const BATCH_HEIGHTS = 16;
/** The least pause between two batches. */
const PACE_MS = 20;
/** How often to look for unproven heights, and whether this process may prove them. */
const LOOK_EVERY_MS = 1_000;
/** Pause before nodes that failed are asked again. */
const AGAIN_MS = 15_000;
/** How long to skip heights for which nodes failed while other heights were proven. */
const SKIPPED_AFTER_FAILURE_MS = 60_000;
/** How long to skip heights that no node can prove. */
const SKIPPED_FOR_MS = 600_000;
/** The most heights that are skipped because those just above cannot be proven. */
const MAX_SKIPPED_HEIGHTS = 1_000_000;

interface Dependencies {
  readonly store: Pick<IndexStore, 'addProofs' | 'blockByHeight' | 'unproven'>;
  /** They are asked at the rank of history. */
  readonly nodes: AccessNodes;
  /** False while the newest blocks have priority, or another process proves. */
  readonly mayRun: () => boolean;
  /** The share of its speed that history may have, above 0 to 1. */
  readonly share: () => number;
  readonly room?: WriteRoom | undefined;
  /** More blocks are proven: their consequences may be provable now, even if the head stands still. */
  readonly onProven: () => void;
  /** A stored block has other guarantees, or another parent, than its proof: it has to be fetched again. */
  readonly onDamage: (damage: FoundDamage) => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** `undefined`: the height is no longer stored, or is damaged, which the read reports. */
type Asked =
  | { readonly kind: 'proven'; readonly block: FinalizedBlock }
  /** `unprovable`: no node has its proof. `refuted`: at this height alone, nodes and store disagree. */
  | { readonly kind: 'unprovable' | 'refuted' | 'failed'; readonly reason: string }
  | undefined;

/**
 * Proves what was stored without a proof, by an earlier version or with `proof.mode: off`: fetches these blocks from the
 * nodes again, newest first, and adds the proofs. All its state is durable, so it may end at any time.
 */
export function proofBackfill(dependencies: Dependencies) {
  const { clock, logger, mayRun, nodes, onDamage, onProven, room, share, store } = dependencies;
  /** All heights from here on were tried: in this pass, or when they were indexed. */
  let triedFrom = 0;
  /** When a new pass begins, at the top. */
  let againAtMs = 0;
  /** How many heights to skip where the next ones cannot be proven either. */
  let skipped = BATCH_HEIGHTS;
  let reason: string | undefined;
  /** The same, without failures that end once nodes answer again. */
  let lasting: string | undefined;
  let hasWarned = false;

  const beginPass = (): void => {
    triedFrom = (store.unproven().at(-1)?.to ?? -1) + 1;
    againAtMs = clock.monotonic() + SKIPPED_FOR_MS;
    skipped = BATCH_HEIGHTS;
    lasting = undefined;
  };

  /** The highest heights to prove. */
  const next = (): HeightRange | undefined => {
    const unproven = store.unproven();
    if (unproven.length === 0) reason = lasting = undefined;
    if (unproven.length === 0 || !mayRun()) return undefined;
    if (clock.monotonic() >= againAtMs) beginPass();
    const highest = unproven.findLast(({ from }) => from < triedFrom);
    if (highest === undefined) return undefined;
    const to = Math.min(highest.to, triedFrom - 1);
    return { from: Math.max(highest.from, to - BATCH_HEIGHTS + 1), to };
  };

  /** False: the nodes failed, and may succeed later. */
  const prove = async ({ from, to }: HeightRange, signal: AbortSignal): Promise<boolean> => {
    const heights = Array.from({ length: to - from + 1 }, (_, index) => to - index);
    const asked = await Promise.allSettled(heights.map((height) => ask(height, signal)));
    // Not before all have ended: the store may close next.
    const answers = asked.flatMap((each) => {
      if (each.status === 'rejected') throw asError(each.reason);
      return each.value ?? [];
    });
    const proven = answers.flatMap((answer) => (answer.kind === 'proven' ? answer.block : []));
    if (proven.length > 0) {
      await store.addProofs(proven);
      onProven();
    }
    reason = lasting;
    for (const answer of answers) {
      if (answer.kind === 'proven') continue;
      reason = `some stored blocks are not proven: ${answer.reason}`;
      if (!hasWarned) logger.warn({ reason: answer.reason }, 'some stored blocks cannot be proven');
      hasWarned = true;
    }
    const isOnly = (kind: NonNullable<Asked>['kind']): boolean =>
      answers.length === heights.length && answers.every((answer) => answer.kind === kind);
    if (isOnly('failed')) return false;
    lasting = reason;
    triedFrom = from;
    if (isOnly('unprovable')) {
      triedFrom = Math.min(from, to - skipped + 1);
      skipped = Math.min(2 * skipped, MAX_SKIPPED_HEIGHTS);
    }
    if (answers.some(({ kind }) => kind === 'failed'))
      againAtMs = Math.min(againAtMs, clock.monotonic() + SKIPPED_AFTER_FAILURE_MS);
    return true;
  };

  const ask = async (height: number, signal: AbortSignal): Promise<Asked> => {
    const stored = (await unlessDamaged(() => store.blockByHeight(height)))?.block;
    if (stored === undefined) return undefined;
    if (stored.proof !== undefined) return { kind: 'proven', block: stored };
    let worst: Asked;
    for (const node of nodes.forHeight(height, BLOCK_CALL)) {
      const answer = await answerOf(nodes, node, node.getBlockByHeight(height, { signal }));
      if (signal.aborted) throw abortReason(signal);
      const said = judge(answer, node.name, stored);
      if (!(answer instanceof UpstreamError)) nodes.succeeded(node, BLOCK_CALL);
      if (said.kind === 'proven') return said;
      // A node that failed may prove it later; one of another chain is named.
      if (worst?.kind !== 'refuted' && (worst === undefined || said.kind !== 'unprovable')) worst = said;
    }
    return worst ?? { kind: 'failed', reason: `no access node is known to serve block ${height}` };
  };

  const judge = (
    answer: ReceivedBlock | UpstreamError,
    node: string,
    stored: FinalizedBlock,
  ): NonNullable<Asked> => {
    if (answer instanceof UpstreamError)
      return { kind: answer.kind === 'unproven' ? 'unprovable' : 'failed', reason: answer.message };
    const { block } = answer;
    const { height } = block;
    if (block.id !== stored.id) {
      const other = `${node} gives block ${height} the id ${block.id}, but ${stored.id} is stored`;
      return { kind: 'refuted', reason: `${other}: the node or the store is of another chain` };
    }
    if (block.proof === undefined)
      return { kind: 'unprovable', reason: `block ${height} cannot be proven by what the nodes send` };
    if (isSameBlock(block, stored) && block.parentId === stored.parentId) return { kind: 'proven', block };
    const what = `block ${height}: its id proves another parent or other guarantees than are stored`;
    onDamage({ height, what });
    return { kind: 'refuted', reason: `${what}; it is fetched again` };
  };

  return {
    /** Why some blocks stay unproven; `undefined` while none does. */
    reason: () => reason,
    /** Runs until the signal aborts. Expected errors: `StorageError`; the signal's abort reason. */
    run: async (signal: AbortSignal): Promise<void> => {
      beginPass();
      for (;;) {
        const range = next();
        let pauseMs = LOOK_EVERY_MS;
        if (range !== undefined) {
          await room?.whenRoom(signal);
          pauseMs = (await prove(range, signal)) ? PACE_MS / share() : AGAIN_MS;
        }
        await sleep(clock, pauseMs, signal);
      }
    },
  };
}
