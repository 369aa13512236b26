import { encodeRlp, sha3Identifier, WireError } from '../../flow/index.js';
import type { Chunk, ExecutionResult, Identifier, RlpItem } from '../../flow/index.js';
import { readServiceEvent } from './serviceEvents.js';
import type { EpochEvent } from './serviceEvents.js';
import { ShapeError } from './ShapeError.js';

/** Set in a chunk's count of service events where it has none. */
const NO_COUNT = 0xffff_0000;

/** The service events of a result, bound to its id. */
export interface BoundEvents {
  readonly id: Identifier;
  readonly events: readonly EpochEvent[];
}

/**
 * Hashes a result in each form it may have and takes the one whose id is among `ids`, which the caller has proven. Its
 * events can then be used. `undefined` when none is: the result was changed, or has a form that is not known.
 */
export function bindResult(result: ExecutionResult, ids: readonly Identifier[]): BoundEvents | undefined {
  let events: ReturnType<typeof readServiceEvent>[];
  try {
    events = result.serviceEvents.map(({ type, payload }) =>
      readServiceEvent(type, JSON.parse(Buffer.from(payload).toString())),
    );
  } catch (error) {
    if (error instanceof ShapeError || error instanceof SyntaxError || error instanceof WireError)
      return undefined;
    throw error;
  }
  const eventItems = result.serviceEvents.map(({ type }, index) => [type, events[index]?.rlp ?? []]);
  for (const chunkItem of [chunk, chunkWithoutCount]) {
    const id = sha3Identifier(
      encodeRlp([
        ...[result.previousResultId, result.blockId, result.chunks.map(chunkItem)],
        ...[eventItems, result.executionDataId],
      ]),
    );
    if (ids.includes(id)) return { id, events: events.flatMap(({ meaning }) => meaning ?? []) };
  }
  return undefined;
}

/** Protocol version 2 and later: with the count of service events, unless the chunk is marked to have none. */
function chunk(of: Chunk): RlpItem {
  return (of.serviceEventCount & NO_COUNT) === 0
    ? chunkItem(of, [of.serviceEventCount])
    : chunkWithoutCount(of);
}

function chunkWithoutCount(of: Chunk): RlpItem {
  return chunkItem(of, []);
}

function chunkItem(of: Chunk, count: readonly number[]): RlpItem {
  const body = [of.collectionIndex, of.startState, of.eventCollection, ...count];
  return [[...body, of.blockId, of.totalComputationUsed, of.numberOfTransactions], of.index, of.endState];
}
