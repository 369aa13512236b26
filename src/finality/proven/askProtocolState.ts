import { answerOf, troubleOf, UpstreamError } from '../../access/index.js';
import type { AccessNodes } from '../../access/index.js';
import { toIdentifier } from '../../flow/index.js';
import { CertificateThreadError } from '../../proof/index.js';
import type { CertificateThread, EpochState, StateParts, StoredHeader } from '../../proof/index.js';

const METHOD = 'GetProtocolStateSnapshotByHeight';
/** A snapshot has megabytes, and the node gathers it first. */
const TIMEOUT_MS = 30_000;

export type ProtocolStateAnswer =
  /** `wasAnchor`: it was kept, as that of an anchor or not. */
  | { readonly state: EpochState; readonly parts: StateParts; readonly wasAnchor?: boolean }
  | {
      readonly state: undefined;
      readonly reason: string;
      /** Every node that serves the height was asked and cannot provide it: asking again soon will not help. */
      readonly isLacking: boolean;
    };

/**
 * Asks one node after another for the protocol state at a block, which says who signs. Any node will do: a state is
 * accepted only if it hashes to the `protocol_state_id` in the header.
 *
 * A node that gives anything else is reported for this call alone, not as a liar: after an upgrade of the network, all
 * honest nodes may give a form that this version does not know. Expected errors: `CertificateThreadError`; the signal's abort
 * reason.
 */
export async function askProtocolState(
  { height, protocolStateId }: Pick<StoredHeader, 'height' | 'protocolStateId'>,
  { nodes, thread }: { readonly nodes: AccessNodes; readonly thread: Pick<CertificateThread, 'readState'> },
  signal: AbortSignal,
): Promise<ProtocolStateAnswer> {
  // Before P7, payloads did not cover it.
  if (protocolStateId.length === 0) {
    const reason = `block ${height} is of a spork whose blocks do not say who signs`;
    return { state: undefined, reason, isLacking: true };
  }
  const said: string[] = [];
  let isLacking = true;
  let unread: CertificateThreadError | undefined;
  for (const node of nodes.forHeight(height, METHOD)) {
    if (!node.supports(METHOD)) {
      const advice = nodes.peers().includes(node) ? ': have it forward such calls (api.forward)' : '';
      said.push(`${node.name} does not serve ${METHOD}${advice}`);
      continue;
    }
    const options = { signal, timeoutMs: TIMEOUT_MS };
    const snapshot = await answerOf(nodes, node, node.getProtocolStateSnapshot(height, options));
    if (snapshot instanceof UpstreamError) {
      const { kind } = snapshot;
      const trouble = troubleOf(kind);
      // These say nothing about what the node has.
      if (trouble === 'unreachable' || trouble === 'rate_limited' || kind === 'not_yet') isLacking = false;
      said.push(snapshot.message);
      continue;
    }
    let reason: string;
    try {
      const reading = await thread.readState(snapshot, toIdentifier(protocolStateId));
      if (reading.ok) {
        nodes.succeeded(node, METHOD);
        return { state: reading.state, parts: reading.parts };
      }
      reason = reading.reason;
    } catch (error) {
      if (!(error instanceof CertificateThreadError)) throw error;
      // This node's data may have ended the thread: the other nodes are asked as well.
      unread = error;
      reason = error.message;
    }
    nodes.report(node, 'failing', reason, METHOD);
    said.push(`${node.name}: ${reason}`);
  }
  if (unread !== undefined) throw unread;
  const why = said[0] ?? 'none is known to serve that height';
  const others = said.length > 1 ? ` (and ${said.length - 1} more)` : '';
  return {
    state: undefined,
    isLacking: isLacking && said.length > 0,
    reason: `no node or peer gives the protocol state of block ${height}: ${why}${others}`,
  };
}
