import { UpstreamError } from '../../src/access/index.js';
import type { AccessMethod, AccessNode, AccessNodes } from '../../src/access/index.js';
import type { NodeFault, NodeHealth, UpstreamErrorKind } from '../../src/access/index.js';

class Named {
  readonly name: string;
  health: NodeHealth = 'healthy';
  /** Methods that it does not know. */
  readonly unknown = new Set<AccessMethod>();

  constructor(name: string) {
    this.name = name;
  }

  healthOf(_method: AccessMethod): NodeHealth {
    return this.health;
  }

  supports(method: AccessMethod): boolean {
    return !this.unknown.has(method);
  }

  delayMs(_method: AccessMethod): number {
    return 0;
  }

  error(kind: UpstreamErrorKind, method: AccessMethod): UpstreamError {
    return new UpstreamError(kind, { node: this.name, method }, `${method}: ${kind}`);
  }
}

/** An access node in memory. Whoever extends it has the calls that its tests need; the others are not there. */
export const NodeInMemory = Named as new (name: string) => AccessNode & Named;

/** Nodes in the order given; a reported one goes last until it is confirmed again. */
export class NodesInMemory<N extends AccessNode & Named> implements AccessNodes {
  all: readonly N[];
  /** Which nodes serve a height; by default all of them. */
  serving: (node: N, height: number) => boolean = () => true;
  readonly reported: {
    readonly node: string;
    readonly fault: NodeFault;
    readonly detail: string;
    readonly method: AccessMethod;
  }[] = [];
  readonly confirmed: { readonly node: string; readonly method: AccessMethod }[] = [];

  constructor(all: readonly N[]) {
    this.all = all;
  }

  live(): readonly N[] {
    return this.all.toSorted(
      (left, right) => Number(left.health === 'set_aside') - Number(right.health === 'set_aside'),
    );
  }

  forHeight(height: number): readonly N[] {
    return this.live().filter((node) => this.serving(node, height));
  }

  forExecutionData(height: number): readonly N[] {
    return this.forHeight(height);
  }

  peers(): readonly N[] {
    return this.live();
  }

  whyNoPeer(): undefined {
    return undefined;
  }

  succeeded(node: AccessNode, method: AccessMethod): void {
    this.confirmed.push({ node: node.name, method });
    this.#set(node, 'healthy');
  }

  report(node: AccessNode, fault: NodeFault, detail: string, method: AccessMethod): void {
    this.reported.push({ node: node.name, fault, detail, method });
    this.#set(node, 'set_aside');
  }

  /** Who was reported, and for what, in order. */
  faults(): string[] {
    return this.reported.map(({ node, fault }) => `${node} ${fault}`);
  }

  #set(node: AccessNode, health: NodeHealth): void {
    for (const own of this.all) if (own.name === node.name) own.health = health;
  }
}
