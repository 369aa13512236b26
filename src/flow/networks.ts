/** The networks the indexer knows by name, each with the chain id its nodes answer. */
export const chainIds = {
  mainnet: 'flow-mainnet',
  testnet: 'flow-testnet',
  emulator: 'flow-emulator',
  devnet: 'flow-localnet',
} as const;

/** A network by the name that the operator uses. */
export type NetworkName = keyof typeof chainIds;

export const networkNames = Object.keys(chainIds) as readonly NetworkName[];

/** The network whose nodes answer this chain id; `undefined` for one we do not know. */
export function networkOfChainId(chainId: string): NetworkName | undefined {
  return networkNames.find((name) => chainIds[name] === chainId);
}
