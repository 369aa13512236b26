/** The networks the indexer knows by name, each with the chain id its nodes report. */
export const chainIds = {
  mainnet: 'flow-mainnet',
  testnet: 'flow-testnet',
  emulator: 'flow-emulator',
  devnet: 'flow-localnet',
} as const;

/** A network by its operator-facing name. */
export type NetworkName = keyof typeof chainIds;

export const networkNames = Object.keys(chainIds) as readonly NetworkName[];
