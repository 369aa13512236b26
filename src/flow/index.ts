export {
  accountRoles,
  accountsOf,
  ADDRESS_BYTES,
  addressBytes,
  parseAddress,
  toAddress,
} from './accounts.js';
export type { AccountRole, Address } from './accounts.js';
export { decodeBlock, encodeBlock } from './block.js';
export {
  collectionIdOf,
  encodeFullCollection,
  splitCollection,
  verifyBlockCollections,
  verifyCollection,
} from './collection.js';
export { VerificationMemory } from './VerificationMemory.js';
export { loadDescriptors } from './wire/descriptors.js';
export type { DescriptorFile } from './wire/descriptors.js';
export { serviceMethods } from './wire/serviceMethods.js';
export type { FlowService } from './wire/serviceMethods.js';
export { WireError } from './WireError.js';
export { InvalidCollectionError } from './InvalidCollectionError.js';
export type { InvalidCollectionReason } from './InvalidCollectionError.js';
export { isSameBlock } from './finalizedBlock.js';
export { identifierBytes, parseIdentifier, sha3, toIdentifier, ZERO_ID } from './ids/identifiers.js';
export { chainIds, networkNames, networkOfChainId } from './networks.js';
export type { NetworkName } from './networks.js';
export { loadProtocol } from './wire/protocol.js';
export type { ProtocolDefinition } from './wire/protocol.js';
export { RequestFields } from './wire/RequestFields.js';
export {
  decodeBlockMessage,
  decodeBlockResponse,
  decodeCollectionResponse,
  decodeExecutionDataResponse,
  decodeFullCollectionResponse,
  decodeIndexedBlocksResponse,
  decodeSubscribeBlocksResponse,
  decodeTransactionResponse,
} from './decodeResponses.js';
export { decodeTransaction, encodeTransaction } from './transaction.js';
export { TransactionScan } from './ids/TransactionScan.js';
export { asBuffer } from './wire/bytes.js';
export { transactionAt } from './transactionAt.js';
export { transactionId } from './transactionId.js';
export { varintLength, WireWriter, writeVarint } from './wire/WireWriter.js';
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
