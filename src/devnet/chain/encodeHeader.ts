import { type Identifier, identifierBytes, WireWriter } from '../../flow/index.js';
import type { Certificate } from '../../proof/index.js';
import type { ChainGenerator, GeneratedBlock } from './ChainGenerator.js';
import type { Prng } from './Prng.js';

const SALT_HEADER = 2;
/** Views run ahead of heights, because some views end in a timeout. */
const VIEWS_AHEAD = 1000;
const TIMEOUT_EVERY_HEIGHTS = 50;
/** How far below a block the one is that its seal is for. */
export const SEALS_BEHIND_HEIGHTS = 4;

/** The view of the block at a height, and that of its parent. */
export function viewsOf(height: number): {
  readonly view: number;
  readonly parentView: number;
  readonly isSkipped: boolean;
} {
  const view = height + VIEWS_AHEAD + Math.floor(height / TIMEOUT_EVERY_HEIGHTS);
  const isSkipped = height % TIMEOUT_EVERY_HEIGHTS === 0;
  return { view, parentView: view - (isSkipped ? 2 : 1), isSkipped };
}

/** The fields that a fault may change. */
export interface HeaderIdentity {
  readonly id: Identifier;
  readonly parentId: Identifier;
  readonly chainId: string;
}

/** `flow.entities.BlockHeader` of a block whose id is made up: it is no hash of these fields. */
export function encodeHeader(
  generator: ChainGenerator,
  block: GeneratedBlock,
  identity: HeaderIdentity,
): Buffer {
  const words = generator.words(block.height, SALT_HEADER);
  const { view, parentView, isSkipped } = viewsOf(block.height);
  const { seconds, nanos } = block.timestamp;
  const writer = new WireWriter()
    .bytes(1, identifierBytes(identity.id))
    .bytes(2, identifierBytes(identity.parentId))
    .number(3, block.height)
    .element(4, new WireWriter().number(1, seconds).number(2, nanos).finish())
    .bytes(5, words.bytes(32))
    .number(6, view)
    .bytes(8, words.bytes(48))
    .bytes(9, words.bytes(32))
    .text(11, identity.chainId)
    .bytes(12, words.bytes(3));
  if (isSkipped) {
    const voterIndices = words.bytes(3);
    const newest = {
      view: parentView,
      blockId: identity.parentId,
      voterIndices,
      voterSigData: words.bytes(48),
    };
    writer.element(13, timeoutCertificate(view - 1, newest, words));
  }
  return writer.number(14, parentView).finish();
}

/** `flow.entities.TimeoutCertificate` of a view, with the newest certificate that its voters knew. Their signature is made up. */
export function timeoutCertificate(view: number, newest: Certificate, words: Prng): Buffer {
  const quorumCertificate = new WireWriter()
    .number(1, newest.view)
    .bytes(2, identifierBytes(newest.blockId))
    .bytes(3, newest.voterIndices)
    .bytes(4, newest.voterSigData)
    .finish();
  return (
    new WireWriter()
      .number(1, view)
      // A packed list of one number.
      .bytes(2, new WireWriter().number(1, newest.view).finish().subarray(1))
      .bytes(3, quorumCertificate)
      .bytes(4, words.bytes(3))
      .bytes(5, words.bytes(48))
      .finish()
  );
}

/** The fields that only the full form of a block has: seals, header, protocol state. */
export function encodeFullExtras(generator: ChainGenerator, block: GeneratedBlock): Uint8Array {
  if (block.hashed !== undefined) return block.hashed.extras;
  const words = generator.words(block.height, SALT_HEADER + 1);
  const writer = new WireWriter();
  const sealed = block.height - SEALS_BEHIND_HEIGHTS;
  if (sealed >= generator.rootHeight) {
    const seal = new WireWriter()
      .bytes(1, identifierBytes(generator.blockId(sealed)))
      .bytes(2, words.bytes(32))
      .finish();
    writer.element(6, seal);
  }
  const identity = { id: block.id, parentId: block.parentId, chainId: generator.chainId };
  return writer
    .element(10, encodeHeader(generator, block, identity))
    .bytes(11, words.bytes(32))
    .finish();
}
