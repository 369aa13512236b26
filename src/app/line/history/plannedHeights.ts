import type { AccessNetwork, SporkTable } from '../../../access/index.js';
import type { HeightsToFill } from '../../../config/index.js';
import { OperatorError } from '../../../runtime/index.js';
import type { HeightRange, IndexStore, SporkRecord } from '../../../storage/index.js';

/** What is known about the chain; without nodes, only the spork table. */
export interface KnownChain {
  readonly sporks: SporkTable;
  readonly network?: Pick<AccessNetwork, 'heights'> | undefined;
}

/** The heights as numbers. Expected errors: OperatorError `usage`. */
export function heightsOf(
  { from, to }: HeightsToFill,
  store: Pick<IndexStore, 'meta' | 'latestBlock'>,
  chain: KnownChain,
): HeightRange {
  const first = store.meta()?.firstHeight;
  if (first === undefined || store.latestBlock() === undefined) {
    throw usage(
      'The store holds nothing yet. Let the daemon index its first block, then plan what lies below it.',
    );
  }
  const lowest = lowestOf(from, chain, store.meta()?.sporks ?? []);
  if (to === undefined && lowest >= first) {
    throw usage(
      `Height ${lowest} is not below the first height of the live range, ${first}: there is nothing to plan.`,
    );
  }
  return { from: lowest, to: to ?? first - 1 };
}

function lowestOf(
  from: HeightsToFill['from'],
  { network, sporks }: KnownChain,
  recorded: readonly SporkRecord[],
): number {
  if (typeof from === 'number') return from;
  if (typeof from === 'object') {
    const spork = sporks.find(({ name }) => name === from.spork);
    if (spork !== undefined) return spork.rootHeight;
    const names = sporks.map(({ name }) => name).join(', ');
    throw usage(
      `There is no spork ${from.spork} in config/sporks.json for this network${names === '' ? '' : `, which has ${names}`}.`,
    );
  }
  // Without nodes, the index itself knows the sporks that it holds.
  const lowest =
    from === 'root'
      ? (network?.heights.liveRoot() ?? recorded.at(-1)?.rootHeight)
      : network === undefined
        ? minimum([...sporks, ...recorded].map(({ rootHeight }) => rootHeight))
        : network.heights.lowestHeight();
  if (lowest !== undefined) return lowest;
  const which = from === 'root' ? 'the root of the live spork' : 'the lowest height that is served';
  throw usage(
    network === undefined
      ? `Only access nodes know ${which}: start the daemon and plan again, or give a height with --from.`
      : `No access node reports ${which}. Give a height with --from.`,
  );
}

function minimum(heights: readonly number[]): number | undefined {
  return heights.length === 0 ? undefined : Math.min(...heights);
}

function usage(message: string): OperatorError {
  return new OperatorError('usage', message);
}
