import { describe, expect, it } from 'vitest';
import { WireError } from '../../../src/flow/index.js';
import { BlockProver } from '../../../src/proof/index.js';
import { recordedBlocks } from '../../support/provenBlocks.js';

/** Fields by name, as numbers from the block down: what of a full block its id does not bind, and does not pass on either. */
const unbound = {
  /** Bound by their ids, which the receipts name. Whoever uses what is in them hashes them first. */
  results: '9',
  /** A copy of the block's own that need not be there. */
  headerId: '10.1',
  parentVoterIds: '10.7',
  proposerSignature: '10.10',
  sealReceipt: '6.2',
  /** Copies of what is bound, which are filled in where they are missing. */
  signature: '7',
  guaranteeSignature: '5.2',
} as const;

/** The messages in a block, by path. */
const messages = new Set(['4', '5', '6', '6.7', '8', '10', '10.4', '10.13', '10.13.3']);

/** A varint below 2^28, and where it ends. */
function varintAt(bytes: Buffer, start: number): [value: number, end: number] {
  let value = 0;
  for (let end = start; ; end++) {
    const byte = bytes.readUInt8(end);
    value |= (byte & 0x7f) << (7 * (end - start));
    if (byte < 0x80) return [value, end + 1];
  }
}

/** For each byte of a message of numbers and bytes the field that it belongs to: its tag, its length and its value. */
function pathsOf(bytes: Buffer, prefix = ''): string[] {
  const paths: string[] = [];
  while (paths.length < bytes.length) {
    const [tag, tagEnd] = varintAt(bytes, paths.length);
    const path = `${prefix}${tag >> 3}`;
    const [number, valueStart] = varintAt(bytes, tagEnd);
    const end = (tag & 7) === 0 ? valueStart : valueStart + number;
    while (paths.length < valueStart) paths.push(path);
    if (messages.has(path)) paths.push(...pathsOf(bytes.subarray(valueStart, end), `${path}.`));
    else while (paths.length < end) paths.push(path);
  }
  return paths;
}

interface Flipped {
  readonly path: string | undefined;
  readonly outcome: 'same' | 'other' | 'not proven';
}

describe('a block with one bit turned', () => {
  const prover = new BlockProver({ chainId: 'flow-localnet' });
  const block = recordedBlocks().find(({ height }) => height === 1318)?.full ?? Buffer.alloc(0);
  const whole = prover.prove(block);
  const paths = pathsOf(block);

  function flip(bit: number): Flipped {
    const turned = Buffer.from(block);
    turned.writeUInt8(turned.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
    const path = paths[bit >> 3];
    try {
      const proving = prover.prove(turned);
      if (proving.kind !== 'proven' || whole.kind !== 'proven') return { path, outcome: 'not proven' };
      const isSame =
        proving.block.id === whole.block.id &&
        Buffer.compare(proving.block.encoded, whole.block.encoded) === 0 &&
        Buffer.compare(proving.proof, whole.proof) === 0;
      return { path, outcome: isSame ? 'same' : 'other' };
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      return { path, outcome: 'not proven' };
    }
  }

  // Other blocks, and proofs that are stored, are changed at random by the targets of test/fuzz/proofs.ts.
  it('is not proven, or proven to be the same: then the bit was in a field that no id binds', () => {
    const found = new Set<string | undefined>();
    for (let bit = 0; bit < 8 * block.length; bit++) {
      const { path, outcome } = flip(bit);
      expect(outcome).not.toBe('other');
      if (outcome === 'same') found.add(path);
    }
    const known = Object.values<string | undefined>(unbound);
    expect([...found].filter((path) => !known.includes(path))).toEqual([]);
    expect(found).toContain(unbound.parentVoterIds);
  });
});

describe('a block of an index, with its proof', () => {
  const prover = new BlockProver({ chainId: 'flow-localnet' });
  const stored = recordedBlocks().flatMap(({ full }) => {
    const whole = prover.prove(full);
    if (whole.kind !== 'proven') return [];
    // An index keeps only the root of the seals.
    const proving = { ...whole, sealedIds: undefined };
    return [{ light: whole.block.encoded, proof: whole.proof, proving }];
  });

  it('is proven to be what the full block was', () => {
    expect(stored.length).toBeGreaterThan(30);
    for (const { light, proof, proving } of stored) expect(prover.proveStored(light, proof)).toEqual(proving);
  });

  it('loses what nothing covers, and is not proven without a proof, or with one of a later version', () => {
    const [{ light, proof, proving } = expect.unreachable('no block')] = stored;
    const field = (tag: number) => Buffer.from([tag, 1, 65]);
    const more = prover.proveStored(Buffer.concat([light, field(0x7a)]), Buffer.concat([proof, field(0x72)]));
    expect(more).toEqual(proving);
    expect(prover.proveStored(light, new Uint8Array())).toEqual({ kind: 'without_header' });
    expect(prover.proveStored(light, Buffer.from([2, ...proof.subarray(1)]))).toEqual({
      kind: 'unknown_form',
    });
  });
});
