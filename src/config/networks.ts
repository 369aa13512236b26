/** The networks a daemon can follow, with their default access nodes. */
export const networks = {
  mainnet: {
    chainId: 'flow-mainnet',
    accessNodes: ['grpc://access.mainnet.nodes.onflow.org:9000'],
    isPublic: true,
  },
  testnet: {
    chainId: 'flow-testnet',
    accessNodes: ['grpc://access.devnet.nodes.onflow.org:9000'],
    isPublic: true,
  },
  emulator: { chainId: 'flow-emulator', accessNodes: ['grpc://127.0.0.1:3569'], isPublic: false },
  devnet: { chainId: 'flow-localnet', accessNodes: ['grpc://127.0.0.1:3570'], isPublic: false },
} as const satisfies Record<string, { chainId: string; accessNodes: readonly string[]; isPublic: boolean }>;

/** The name of a network, as the operator writes it. */
export type NetworkName = keyof typeof networks;

export const networkNames = Object.keys(networks) as NetworkName[];

/** Public nodes allow about 100 reads per second, client address and method; this stays well below. */
export const PUBLIC_NODE_RATE_PER_SECOND = 80;

/** Public networks make a block about every second. */
export const PUBLIC_HEAD_AGE_SECONDS = 120;
