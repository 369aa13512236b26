import { faultOf, troubleOf, UpstreamError } from '../access/index.js';
import type { AccessMethod, AccessNode, AccessNodes } from '../access/index.js';
import type { NodeFault, TroubleKind, UpstreamErrorKind } from '../access/index.js';
import { InvalidCollectionError } from '../flow/index.js';
import type { Logger, Metrics } from '../observability/index.js';
import type { Source } from './ports.js';

/** What went wrong with one answer of a node. */
export interface Fault {
  /** `invalid`: it is not what the block guarantees. */
  readonly reason: UpstreamErrorKind | 'invalid';
  /** For messages: the kind of error and the text of the node. */
  readonly text: string;
  /** The reason label of `invalid_collections_total` when data was refused. */
  readonly refused: string | undefined;
  /** What counts against the node; `undefined` if it did nothing wrong. */
  readonly fault: NodeFault | undefined;
  readonly kind: TroubleKind;
  /** The call that failed, if the error names it. */
  readonly method?: AccessMethod;
}

/** What an error of a call or a check says about the node; `undefined` if it is unexpected. */
export function faultIn(error: unknown): Fault | undefined {
  if (error instanceof InvalidCollectionError) {
    const text = `${error.reason}: ${error.message}`;
    return { reason: 'invalid', text, refused: error.reason, fault: 'lied', kind: 'invalid' };
  }
  if (!(error instanceof UpstreamError)) return undefined;
  const { kind: reason, message: text, method } = error;
  const refused = reason === 'malformed' || reason === 'too_large' ? reason : undefined;
  return { reason, text, refused, fault: faultOf(reason), kind: troubleOf(reason), method };
}

interface Parts {
  readonly nodes: Pick<AccessNodes, 'succeeded' | 'report'>;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'invalidCollections'>;
}

/** Reports what one source learns about nodes: to the pool, the metrics and the log. */
export function faultReporter(source: Source, { logger, metrics, nodes }: Parts) {
  /** Nodes whose data was refused, and that delivered nothing valid since: only the first refusal is a warning. */
  const refused = new Set<string>();
  return {
    /** The node delivered what was requested, and it was verified. */
    succeeded: (node: AccessNode, method: AccessMethod): void => {
      refused.delete(node.name);
      nodes.succeeded(node, method);
    },
    /** `fields` and the message of the node go to the debug log only: they contain ids. */
    report: (
      node: AccessNode,
      method: AccessMethod,
      fault: Pick<Fault, 'text' | 'refused' | 'fault'>,
      height: number | undefined,
      fields: object,
    ): void => {
      const reason = fault.refused;
      const decision = reason === undefined ? 'retry' : 'invalid';
      const common = { node: node.name, source, height, decision };
      logger.debug({ ...common, ...fields, error: fault.text }, 'access node did not deliver');
      if (fault.fault !== undefined) nodes.report(node, fault.fault, fault.text, method);
      if (reason === undefined) return;
      metrics.invalidCollections.inc({ source, reason });
      if (refused.has(node.name)) return;
      refused.add(node.name);
      const sender = source === 'peer' ? 'peer' : 'access node';
      logger.warn({ ...common, reason }, `${sender} sent data that was refused`);
    },
  };
}
