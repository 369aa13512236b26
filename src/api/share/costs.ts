// What readers take of the event loop where it cannot be measured: half of it happens in Node.js and in libraries, before and behind
// our own code. Read off `npm run profile -- --reads KIND --over NAME`, all on one day and one machine; `pace` tells how another
// one, or the same on another day, stands to that. What we make of a read ourselves is measured.

/** By which interface a request came. */
export const interfaces = ['http', 'grpc'] as const;
export type Interface = (typeof interfaces)[number];

/** To receive a request and to send the head of its answer. */
export const REQUEST_COST_MS: Readonly<Record<Interface, number>> = { http: 0.18, grpc: 0.24 };

/** One question to the store, for a block, a collection or a transaction. */
export const READ_COST_MS = 0.12;

const MIB = 1024 * 1024;
/** To read, check, copy and write what an answer is made of. */
const COST_PER_MIB_MS = 4;

export function sentCostMs(bytes: number): number {
  return (bytes / MIB) * COST_PER_MIB_MS;
}

/** What `HASHED_BYTES` took there, by `machinePace`. */
export const HASHING_COST_MS = 0.9;
export const HASHED_BYTES = 256 * 1024;
