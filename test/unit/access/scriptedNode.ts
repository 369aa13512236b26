import { parseEndpoint, UpstreamError } from '../../../src/access/index.js';
import type { AccessMethod, NodeVersionInfo } from '../../../src/access/index.js';
import type { ReceivedBlock, UpstreamErrorKind } from '../../../src/access/index.js';
import type { NodeEvents } from '../../../src/access/transport/ports.js';
import type { NodeHealthRecord } from '../../../src/access/selection/NodeHealthRecord.js';
import type { grpcAccessNode, PooledNode } from '../../../src/access/node/grpcAccessNode.js';
import { parseIdentifier, type Identifier } from '../../../src/flow/index.js';
import { NodeInMemory } from '../../support/nodesInMemory.js';

/** What a scripted node says of itself. */
export interface NodeScript {
  chainId?: string;
  /** The chain that its headers name; none unless told. */
  headerChainId?: string;
  version?: NodeVersionInfo | 'unimplemented';
  /** Text of the refusal for heights below this node's own root. */
  belowRoot?: (height: number) => { readonly text: string; readonly lowestHeight?: number } | undefined;
  /** The id of the block at a height; undefined = NotFound. */
  blockIdAt?: (height: number) => Identifier | undefined;
  /** Its latest finalized block: the root that it tells, or 1, unless told, without a time. `unimplemented`: it cannot tell. */
  latest?: () => { readonly height: number; readonly timestampMs?: number } | 'unimplemented';
  /** While set, nothing answers. */
  down?: boolean;
  /** Calls that fail, each in its own way. */
  fails?: Partial<Record<AccessMethod, UpstreamErrorKind>>;
  /** This call breaks the connection: it fails, and so does whatever is under way. */
  breaks?: AccessMethod;
  /** What its block stream begins with; without it, it has none. */
  streams?: ReceivedBlock;
  /** The first answer comes only then. */
  until?: Promise<void>;
}

/** A block with this id. */
export const blockAt = (height: number, id: Identifier): ReceivedBlock => ({
  block: { id, parentId: idOf('0'), height, collectionIds: [], encoded: new Uint8Array() },
  status: 'finalized',
});

/** The id whose hex digits are all the same. */
export function idOf(digit: string): Identifier {
  const id = parseIdentifier(digit.repeat(64));
  if (id === undefined) throw new Error(`${digit} is not a hex digit`);
  return id;
}

/** An access node in memory that answers the questions of identity as its script says, at once. */
export class ScriptedNode extends NodeInMemory implements PooledNode {
  readonly ratePerSecond: number;
  readonly script: NodeScript;
  readonly healthRecord: NodeHealthRecord;
  readonly history = this;
  readonly endpoint = parseEndpoint(this.name);
  override readonly latencyMs = 0;
  readonly client = {
    ...{ inFlight: 0, heldBack: false },
    admit: () => Promise.resolve('busy' as const),
    limits: () => [],
    close: () => void (this.closed = true),
    renew: () => void (this.renewed += 1),
  };
  closed = false;
  renewed = 0;
  asked = 0;
  /** Where it reports what a call shows: that it is out of reach, its head, its lowest height. */
  readonly events: NodeEvents;
  #connection = {};

  constructor(
    name: string,
    ratePerSecond: number,
    script: NodeScript,
    { healthRecord, events = {} }: Parameters<typeof grpcAccessNode>[1],
  ) {
    super(name);
    this.ratePerSecond = ratePerSecond;
    this.script = script;
    this.healthRecord = healthRecord;
    this.events = events;
  }

  override healthOf() {
    return this.healthRecord.health;
  }

  override async getNetworkParameters() {
    this.asked += 1;
    if (this.script.until !== undefined) await this.script.until;
    await this.#answered('GetNetworkParameters');
    return { chainId: this.script.chainId ?? 'flow-localnet' };
  }

  override async getNodeVersionInfo(): Promise<NodeVersionInfo> {
    await this.#answered('GetNodeVersionInfo');
    const { version } = this.script;
    if (version === undefined || version === 'unimplemented')
      throw this.error('unimplemented', 'GetNodeVersionInfo');
    return version;
  }

  override async getLatestBlockHeader() {
    await this.#answered('GetLatestBlockHeader');
    const { version } = this.script;
    const root = typeof version === 'object' ? Math.max(version.sporkRootHeight, version.nodeRootHeight) : 0;
    const latest = this.script.latest?.() ?? { height: Math.max(1, root) };
    if (latest === 'unimplemented') throw this.error('unimplemented', 'GetLatestBlockHeader');
    const chainId = this.script.headerChainId ?? '';
    return { id: idOf('1'), parentId: idOf('0'), timestampMs: undefined, ...latest, chainId };
  }

  override async getBlockByHeight(height: number): Promise<ReceivedBlock> {
    await this.#answered('GetBlockByHeight');
    const refusal = this.script.belowRoot?.(height);
    if (refusal !== undefined) {
      const { lowestHeight, text } = refusal;
      const where = { node: this.name, method: 'GetBlockByHeight', lowestHeight } as const;
      throw new UpstreamError('below_root', where, text);
    }
    const id = this.script.blockIdAt?.(height);
    if (id === undefined) throw this.error('not_found', 'GetBlockByHeight');
    return { ...blockAt(height, id), status: 'sealed' };
  }

  override async *subscribeBlocks(): AsyncGenerator<ReceivedBlock, void> {
    await this.#answered('SubscribeBlocksFromStartHeight');
    if (this.script.streams === undefined)
      throw this.error('unimplemented', 'SubscribeBlocksFromStartHeight');
    yield this.script.streams;
  }

  /** Expected errors: `UpstreamError`, where the script says so. */
  async #answered(method: AccessMethod): Promise<void> {
    const connection = this.#connection;
    if (this.script.breaks === method) this.#connection = {};
    await Promise.resolve();
    if (this.script.down === true || connection !== this.#connection) throw this.error('unavailable', method);
    const kind = this.script.fails?.[method];
    if (kind !== undefined) throw this.error(kind, method);
  }
}

/** Opens scripted nodes by endpoint name and keeps every one that was opened. */
export class ScriptedNodes {
  readonly opened: ScriptedNode[] = [];
  readonly #scripts: Readonly<Record<string, NodeScript>>;

  constructor(scripts: Readonly<Record<string, NodeScript>>) {
    this.#scripts = scripts;
  }

  readonly open: typeof grpcAccessNode = ({ endpoint, ratePerSecond }, parts) => {
    const script = this.#scripts[endpoint.name];
    if (script === undefined) throw new Error(`no script for ${endpoint.name}`);
    const node = new ScriptedNode(endpoint.name, ratePerSecond, script, parts);
    this.opened.push(node);
    return node;
  };

  node(name: string): ScriptedNode {
    const node = this.opened.find((candidate) => candidate.name === name && !candidate.closed);
    if (node === undefined) throw new Error(`${name} was not opened`);
    return node;
  }
}
