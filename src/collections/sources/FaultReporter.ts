import type { AccessMethod, AccessNode, AccessNodes, NodeFault } from '../../access/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import type { Source } from '../ports.js';

/** What went wrong with one answer of a node. */
export interface Fault {
  /** For people: the kind of error and the message of the node. */
  readonly text: string;
  /** The reason label of `invalid_collections_total` when data was refused. */
  readonly refused: string | undefined;
  /** What counts against the node; `undefined` if it did nothing wrong. */
  readonly fault: NodeFault | undefined;
}

export interface FaultReporterDependencies {
  readonly nodes: Pick<AccessNodes, 'succeeded' | 'report'>;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'invalidCollections'>;
}

/** Reports what one source learns about nodes: to the pool, the metrics and the log. */
export class FaultReporter {
  readonly #source: Source;
  readonly #dependencies: FaultReporterDependencies;
  /** Nodes whose data was refused, and that have delivered nothing good since: only the first refusal is a warning. */
  readonly #refused = new Set<string>();

  constructor(options: { readonly source: Source }, dependencies: FaultReporterDependencies) {
    this.#source = options.source;
    this.#dependencies = dependencies;
  }

  /** The node delivered what was requested, and it was verified. */
  succeeded(node: AccessNode, method: AccessMethod): void {
    this.#refused.delete(node.name);
    this.#dependencies.nodes.succeeded(node, method);
  }

  /** `fields` and the message of the node go to the debug log only: they contain ids. */
  report(
    node: AccessNode,
    method: AccessMethod,
    fault: Fault,
    height: number | undefined,
    fields: object,
  ): void {
    const { logger, metrics, nodes } = this.#dependencies;
    const decision = fault.refused === undefined ? 'retry' : 'invalid';
    const common = { node: node.name, source: this.#source, height, decision };
    logger.debug({ ...common, ...fields, error: fault.text }, 'access node did not deliver');
    if (fault.fault !== undefined) nodes.report(node, fault.fault, fault.text, method);
    if (fault.refused === undefined) return;
    metrics.invalidCollections.inc({ source: this.#source, reason: fault.refused });
    if (this.#refused.has(node.name)) return;
    this.#refused.add(node.name);
    logger.warn(
      { ...common, reason: fault.refused },
      `${this.#source === 'peer' ? 'peer' : 'access node'} sent data that was refused`,
    );
  }
}
