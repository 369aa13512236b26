import type { Logger } from '../../../observability/index.js';
import type { Clock } from '../../../runtime/index.js';
import { OperatorError } from '../../../runtime/index.js';
import type { AccessMetrics } from '../../transport/ports.js';
import { confirmsWatermark, foreignMessage, foreignness } from '../identity/nodeIdentity.js';
import type { Expectation, NodeIdentity } from '../identity/nodeIdentity.js';
import type { NodePool } from '../NodePool.js';
import { anchorOf, isHeard, isUsable, nameOf } from '../PoolMember.js';
import type { PoolMember } from '../PoolMember.js';

/** Heads older than this say nothing about the present. */
const HEAD_FRESH_MS = 10_000;
/** A head this far below the last stored block is not just a late answer. */
const HEAD_FAR_BELOW_HEIGHTS = 20;

interface Dependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Pick<AccessMetrics, 'foreignNodes'>;
  readonly expectation: () => Expectation;
}

/** Compares the nodes' identities with our chain. Only this class makes a node usable or foreign. */
export class ChainCheck {
  readonly #pool: NodePool;
  readonly #deps: Dependencies;

  constructor(pool: NodePool, dependencies: Dependencies) {
    this.#pool = pool;
    this.#deps = dependencies;
  }

  /** Judges all nodes again: what one says about our last block may matter for the others. */
  judge(): void {
    const expectation = this.#deps.expectation();
    const { hasSporks, members } = this.#pool;
    for (const member of members) {
      const { identity, node } = member;
      if (identity === undefined) continue;
      const confirmed = members.some(
        (other) =>
          other !== member &&
          isHeard(other) &&
          isUsable(other) &&
          other.identity !== undefined &&
          confirmsWatermark(other.identity) &&
          !this.#mayBeDiscardedBy(identity, other),
      );
      const before = node.healthRecord.identity;
      const foreign = foreignness(identity, expectation, { confirmed, hasSporks });
      // The highest common height is searched once.
      const sharedHeight = foreign?.sharedHeight ?? member.foreign?.sharedHeight;
      member.foreign = foreign === undefined ? undefined : { ...foreign, sharedHeight };
      node.healthRecord.identity = foreign === undefined ? 'usable' : 'foreign';
      if (node.healthRecord.identity === before) continue;
      member.foreignSinceMs = this.#deps.clock.monotonic();
      this.#announce(member);
    }
  }

  /**
   * Expected errors: OperatorError `foreign` when one of the configured nodes is. Call it when none of them is usable.
   */
  refuseForeign(): void {
    const foreign = foreignOf(this.#pool.named());
    if (foreign.length > 0)
      throw new OperatorError('foreign', foreignMessage(foreign, this.#deps.expectation()));
  }

  /** Set while every configured access node that answers serves another chain than the stored one. */
  chainReplaced() {
    const named = this.#pool.named();
    // The last answer of a node that is silent says nothing about what it will serve when it is back.
    const answering = named.filter(({ outage }) => !outage);
    const foreign = foreignOf(answering);
    if (foreign.length === 0 || named.some(isUsable)) return undefined;
    return {
      /** One or two sentences for the operator: what was found, and what to do. */
      message: foreignMessage(foreign, this.#deps.expectation()),
      /** Monotonic milliseconds since when no node of our chain answers. */
      sinceMs: Math.max(...foreign.map(({ sinceMs }) => sinceMs)),
      nodes: foreign.map(({ name }) => name),
    };
  }

  /** The highest head, while every one that nodes of our chain reported recently is far below the last stored block. */
  headBelow(): { readonly head: number; readonly watermark: number } | undefined {
    const watermark = this.#deps.expectation().watermark?.height;
    const sinceMs = this.#deps.clock.monotonic() - HEAD_FRESH_MS;
    const told = this.#pool
      .named()
      .filter(isUsable)
      .flatMap(({ head }) => head ?? []);
    const heads = told.filter(({ atMs }) => atMs >= sinceMs).map(({ height }) => height);
    if (watermark === undefined || heads.length === 0) return undefined;
    const head = Math.max(...heads);
    return head <= watermark - HEAD_FAR_BELOW_HEIGHTS ? { head, watermark } : undefined;
  }

  /** A later spork, if it exists, may have discarded the blocks that a node has above its root. */
  #mayBeDiscardedBy({ sporkRootHeight }: NodeIdentity, other: PoolMember): boolean {
    const anchor = anchorOf(other);
    if (sporkRootHeight === undefined || anchor === undefined || anchor >= sporkRootHeight) return false;
    return this.#pool.verifier.verdict(sporkRootHeight) !== 'contradicted';
  }

  #announce(member: PoolMember): void {
    const { node, identity, foreign } = member;
    const name = nameOf(member);
    if (foreign === undefined) {
      this.#deps.logger.info(
        { endpoint: node.name, semver: identity?.semver, lowestHeight: identity?.lowestHeight },
        `${name} identified`,
      );
      return;
    }
    const { reason, expected, found, height } = foreign;
    this.#deps.metrics.foreignNodes.inc({ reason });
    // Chain ids are names; ids of sporks and blocks are for the debug log.
    const chains = reason === 'chain' ? { expected, found } : {};
    this.#deps.logger.warn(
      { endpoint: node.name, reason, height, ...chains },
      `${name} is foreign and left out`,
    );
    this.#deps.logger.debug({ endpoint: node.name, ...foreign }, `ids of the foreign ${name}`);
  }
}

function foreignOf(members: readonly PoolMember[]) {
  return members.flatMap(({ node: { name }, foreign, foreignSinceMs: sinceMs }) =>
    foreign === undefined ? [] : { name, foreign, sinceMs },
  );
}
