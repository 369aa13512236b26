export {
  accountRoles,
  accountsOf,
  ADDRESS_BYTES,
  addressBytes,
  parseAddress,
  toAddress,
} from './entities/accounts.js';
export type { AccountRole, Address } from './entities/accounts.js';
export { decodeBlock, encodeBlock, encodeGuarantee, encodeTimestamp, NO_TIME } from './entities/block.js';
export { timeOfBlock } from './entities/block.js';
export { finalizedBlock as decodeBlockMessage, isSameBlock } from './entities/finalizedBlock.js';
export { decodeExecutionResult, scanFullBlock, timeoutOf } from './entities/fullBlock.js';
export type { Chunk, ExecutionResult, FullBlock, FullGuarantee, FullHeader } from './entities/fullBlock.js';
export type { FullSeal, ReceiptMeta, TimeoutCertificate } from './entities/fullBlock.js';
export { encodeFullCollection, splitCollection, transactionAt } from './entities/fullCollection.js';
export { decodeTransaction, encodeTransaction } from './entities/transaction.js';
export {
  IDENTIFIER_BYTES,
  identifierBytes,
  paddedIdentifier,
  parseIdentifier,
  sha3,
  sha3Identifier,
  toIdentifier,
  ZERO_ID,
} from './ids/identifiers.js';
export { collectionIdOf, decodeRlp, encodeRlp, rlpBytes, rlpItems, rlpNumber } from './ids/rlp.js';
export type { RlpItem, RlpTree } from './ids/rlp.js';
export { RlpWriter } from './ids/RlpWriter.js';
export { ID_ITEM_HEADER, VerificationMemory } from './ids/TransactionHasher.js';
export { TransactionScan } from './ids/TransactionScan.js';
export {
  type BlockDecoder,
  decodeBlockResponse,
  decodeCollectionResponse,
  decodeExecutionDataResponse,
  decodeIndexedBlocksResponse,
  decodeProvableBlock,
  decodeSubscribeBlocksResponse,
  decodeTransactionResponse,
} from './responses.js';
export { identifyTransactions, transactionId } from './verification/verifyCollections.js';
export type { IdentifiedTransaction } from './verification/verifyCollections.js';
export { InvalidCollectionError } from './verification/InvalidCollectionError.js';
export { verifyBlockCollections, verifyCollection } from './verification/verifyCollections.js';
export { asBuffer } from './wire/bytes.js';
export { ABSENT_SPAN, FieldScan } from './wire/FieldScan.js';
export type { Span } from './wire/FieldScan.js';
export { RequestFields } from './wire/RequestFields.js';
export { WireReader } from './wire/WireReader.js';
export { varintLength, WireWriter, writeVarint } from './wire/WireWriter.js';
export { WireError } from './WireError.js';
export type {
  Block,
  BlockExecutionData,
  BlockStatus,
  CollectionGuarantee,
  FinalizedBlock,
  Identifier,
  Timestamp,
  Transaction,
  TransactionSignature,
  VerifiedCollection,
} from './types.js';
