import type { GeneratedBlock } from '../../src/devnet/index.js';
import { decodeTransaction } from '../../src/flow/index.js';

/** `extension_data` of one zero byte on the wire. */
const PLAIN_EXTENSION = Buffer.of(0x22, 1, 0);
/** Bytes before it that tell its place from others with the same bytes. */
const CONTEXT_BYTES = 8;

/**
 * What no id binds of a block's transactions (SECURITY.md): addresses in signatures by none of the signers, and whether there is
 * extension data of one zero byte. With something else there it is another transaction of the same id.
 */
export function unboundBytes({ collections }: GeneratedBlock): Buffer[] {
  return collections.flatMap(({ transactions }) =>
    transactions.flatMap((encoded) => {
      const { authorizers, envelopeSignatures, payer, payloadSignatures, proposalKey } =
        decodeTransaction(encoded);
      const signers = [payer, ...authorizers, ...(proposalKey === undefined ? [] : [proposalKey.address])];
      return [...payloadSignatures, ...envelopeSignatures].flatMap(
        ({ address, extensionData, signature }) => {
          const isOfSigner = signers.some((signer) => Buffer.from(address).equals(signer));
          const isPlain = extensionData.length === 1 && extensionData[0] === 0;
          const extension = Buffer.concat([signature.subarray(-CONTEXT_BYTES), PLAIN_EXTENSION]);
          return [...(isOfSigner ? [] : [Buffer.from(address)]), ...(isPlain ? [extension] : [])];
        },
      );
    }),
  );
}

/** The first place from `at` on that lies within none of the unbound bytes, where `message` has them. */
export function pastUnbound(message: Buffer, at: number, unbound: readonly Buffer[]): number {
  for (const bytes of unbound) {
    const begins = message.indexOf(bytes, Math.max(0, at - bytes.length + 1));
    if (begins !== -1 && begins <= at) return begins + bytes.length;
  }
  return at;
}
