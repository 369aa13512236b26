/** Highest gas limit of a transaction. */
export const GAS_LIMIT = 9999n;

/** Scripts that look like real Flow scripts; what they do does not matter. */
export const scripts = [
  `transaction(amount: UFix64, to: Address) {
    prepare(signer: auth(BorrowValue) &Account) {
        pay(amount, from: signer, to: to)
    }
}
`,
  `transaction(price: UFix64, seller: Address) {
    prepare(signer: auth(Storage) &Account) {
        signer.storage.save(price, to: /storage/bid)
    }
}
`,
].map((text) => Buffer.from(text, 'utf8'));

/** Padding that keeps a script valid Cadence: one long comment line. */
export const COMMENT = Buffer.from('// ', 'utf8');
export const FILLER = Buffer.from(
  'the quick brown fox jumps over the lazy dog, and 1234567890 more times; ',
  'utf8',
);
