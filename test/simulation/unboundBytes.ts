import type { GeneratedBlock } from '../../src/devnet/index.js';
import { decodeTransaction } from '../../src/flow/index.js';

/**
 * What no id binds of the transactions of a block: the addresses in signatures by somebody who is neither proposer,
 * payer nor authorizer (SECURITY.md). With another one there the transaction is another that has the same id.
 */
export function unboundAddresses({ collections }: GeneratedBlock): Buffer[] {
  return collections.flatMap(({ transactions }) =>
    transactions.flatMap((encoded) => {
      const { authorizers, envelopeSignatures, payer, payloadSignatures, proposalKey } =
        decodeTransaction(encoded);
      const signers = [payer, ...authorizers, ...(proposalKey === undefined ? [] : [proposalKey.address])];
      return [...payloadSignatures, ...envelopeSignatures]
        .map(({ address }) => Buffer.from(address))
        .filter((address) => !signers.some((signer) => address.equals(signer)));
    }),
  );
}

/** The first place from `at` on that lies within none of the addresses, where `message` has them. */
export function pastUnbound(message: Buffer, at: number, addresses: readonly Buffer[]): number {
  for (const address of addresses) {
    const begins = message.indexOf(address, Math.max(0, at - address.length + 1));
    if (begins !== -1 && begins <= at) return begins + address.length;
  }
  return at;
}
