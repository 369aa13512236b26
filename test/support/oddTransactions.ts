import { NO_TIME, type Timestamp, type Transaction } from '../../src/flow/index.js';
import type { BlockEntry } from '../../src/storage/index.js';
import { chainTime, smallChain, transactionWith } from './smallChain.js';
import { signatureBy } from './storeBlocks.js';

/** Scripts that a careless writer or reader of files takes for something else. */
const scripts: readonly Buffer[] = [
  Buffer.from('first line\nsecond, "quoted"\r\nthird\r'),
  Buffer.from(''),
  Buffer.from('"'),
  Buffer.from(',,\n\n'),
  Buffer.from(' spaces around '),
  Buffer.from('NULL'),
  Buffer.from("'; drop table transactions; --"),
  Buffer.from('\\N \\" \\n'),
  Buffer.from('héllo 🌊 \uFFFD'),
  Buffer.from('\uFEFFbyte order mark'),
  Buffer.from('zero\0byte'),
  Buffer.from([0xff, 0xfe, 0x80]),
];

export const ODD_PAYER = '00000000000000b7';

/** Times of blocks: none, the first and the last that there may be, before 1970, and with nanoseconds. */
export const oddTimes: readonly (Timestamp | undefined)[] = [
  ...[chainTime, undefined, NO_TIME, { ...NO_TIME, nanos: 1_001 }, { seconds: -1n, nanos: 999_999_999 }],
  ...[
    { seconds: 0n, nanos: 0 },
    { seconds: 1_767_225_600n, nanos: 123_456_789 },
  ],
  { seconds: 253_402_300_799n, nanos: 999_999_999 },
];

/** A chain of some twenty blocks, the first and the last empty, with everything in its blocks and transactions that is hard to write down. */
export function oddTransactions(firstHeight: number): BlockEntry[] {
  const zero = Buffer.alloc(0);
  const odd: Transaction[] = [
    ...scripts.map((script) => transactionWith({ script })),
    transactionWith({ arguments: [] }),
    transactionWith({ arguments: [Buffer.from('["a,b\n"]'), Buffer.from('')] }),
    transactionWith({ arguments: [Buffer.from('{}'), Buffer.from([0xc3, 0x28])] }),
    transactionWith({ gasLimit: 2n ** 64n - 1n }),
    transactionWith({
      proposalKey: { address: Buffer.alloc(8, 1), keyId: 2 ** 32 - 1, sequenceNumber: 2n ** 64n - 1n },
    }),
    transactionWith({ payer: Buffer.from([0xb7]), authorizers: [] }),
    transactionWith({ payloadSignatures: [], envelopeSignatures: [] }),
    // Bytes that are too short or too long stand for an id or an address all the same.
    transactionWith({ proposalKey: undefined, referenceBlockId: zero, payer: zero }),
    transactionWith({ referenceBlockId: Buffer.alloc(20, 0xcd), payer: Buffer.alloc(9, 0xee) }),
    transactionWith({
      ...{
        referenceBlockId: Buffer.alloc(40, 0xcd),
        authorizers: [Buffer.from([1]), Buffer.alloc(10, 2), zero],
      },
      payloadSignatures: [signatureBy(Buffer.from([5]), 2 ** 32 - 1, zero, Buffer.alloc(300, 7))],
    }),
    transactionWith({ script: zero, arguments: [zero] }),
  ];
  const blocks = odd.map((transaction, index) =>
    index % 3 === 0 ? [[transaction], [transaction]] : [[transaction]],
  );
  const contents = [[], ...blocks.slice(0, 9), [odd, []], ...blocks.slice(9), []];
  return smallChain(firstHeight, contents, (index) => oddTimes[index % oddTimes.length]);
}
