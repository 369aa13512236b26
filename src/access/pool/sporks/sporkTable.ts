import { readFile } from 'node:fs/promises';
import { parseIdentifier, type Identifier } from '../../../flow/index.js';
import { messageOf, OperatorError, parseJson } from '../../../runtime/index.js';
import { parseEndpoint } from '../../transport/endpoint.js';

/** One spork of a network and the nodes that serve its heights. */
export interface Spork {
  readonly name: string;
  /** The height of its first block, which continues the heights of the previous spork. */
  readonly rootHeight: number;
  /** The root height of the next spork; `null` while this one is live. */
  readonly endHeightExclusive: number | null;
  /** The root block's parent; absent where it is not known. */
  readonly rootParentId?: Identifier;
  /** The root block; absent where it is not known. */
  readonly rootId?: Identifier;
  /**
   * Whether that parent is the block that nodes of the previous spork have below the root: then no other block is
   * accepted there. Default true. False only if heights or parents are known not to continue.
   */
  readonly rootParentIsBelow?: boolean;
  /** At least one, in the form of `parseEndpoint`. */
  readonly accessNodes: readonly string[];
}

/**
 * The sporks of one network whose heights some node still serves, ascending, without overlap. There may be gaps: sporks
 * without a public node are not listed.
 */
export type SporkTable = readonly Spork[];

/**
 * Reads a spork table: JSON of the form `{"mainnet": [Spork, …], "testnet": [Spork, …]}`. A network that is not in it
 * has an empty table. Expected errors: OperatorError `configuration`.
 */
export async function readSporkTable(path: string, network: string): Promise<SporkTable> {
  let content: unknown;
  try {
    content = parseJson(await readFile(path, 'utf8'));
  } catch (error) {
    throw new OperatorError('configuration', `The spork table ${path} cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
  return parseSporkTable(content, network, path);
}

/** Like `readSporkTable`, from parsed JSON; `origin` names it in messages. */
export function parseSporkTable(content: unknown, network: string, origin: string): SporkTable {
  const refuse = (what: string): never => {
    throw new OperatorError('configuration', `The spork table ${origin} is not usable: ${what}.`);
  };
  if (!isRecord(content)) return refuse('it is not an object of networks');
  const entries = Object.hasOwn(content, network) ? content[network] : [];
  if (!Array.isArray(entries)) return refuse(`"${network}" is not a list`);
  const table = entries.map((entry: unknown, index) => parseSpork(entry, `${network}[${index}]`, refuse));
  for (const [index, spork] of table.entries()) {
    const next = table[index + 1];
    if (next === undefined) continue;
    if (spork.endHeightExclusive === null || spork.endHeightExclusive > next.rootHeight) {
      refuse(`"${spork.name}" overlaps "${next.name}", or they are not in ascending order`);
    }
  }
  return table;
}

export function sporkOf(table: SporkTable, height: number): Spork | undefined {
  return table.find(
    ({ rootHeight, endHeightExclusive }) =>
      height >= rootHeight && (endHeightExclusive === null || height < endHeightExclusive),
  );
}

function parseSpork(entry: unknown, place: string, refuse: (what: string) => never): Spork {
  if (!isRecord(entry)) return refuse(`${place} is not an object`);
  const parseId = (field: 'rootId' | 'rootParentId') => {
    const value = entry[field];
    if (value === undefined) return {};
    const id = typeof value === 'string' ? parseIdentifier(value) : undefined;
    return id === undefined ? refuse(`${place}.${field} is not 64 hex digits`) : { [field]: id };
  };
  const { accessNodes, endHeightExclusive, name, rootHeight, rootParentIsBelow = true } = entry;
  if (typeof name !== 'string' || name === '') return refuse(`${place}.name is missing`);
  if (!isHeight(rootHeight)) return refuse(`${place}.rootHeight is not a height`);
  if (endHeightExclusive !== null && !(isHeight(endHeightExclusive) && endHeightExclusive > rootHeight)) {
    return refuse(`${place}.endHeightExclusive is neither null nor a height above rootHeight`);
  }
  const ids = { ...parseId('rootParentId'), ...parseId('rootId') };
  if (typeof rootParentIsBelow !== 'boolean')
    return refuse(`${place}.rootParentIsBelow is not true or false`);
  const isList = Array.isArray(accessNodes) && accessNodes.length > 0;
  if (!isList || !accessNodes.every((node) => typeof node === 'string'))
    return refuse(`${place}.accessNodes is not a list of nodes`);
  for (const node of accessNodes) {
    try {
      parseEndpoint(node);
    } catch (error) {
      refuse(`${place}.accessNodes: ${messageOf(error)}`);
    }
  }
  return { name, rootHeight, endHeightExclusive, ...ids, rootParentIsBelow, accessNodes };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isHeight(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
