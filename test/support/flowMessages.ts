/** `flow.entities.Transaction.Signature`, as a client loaded from the proto files has it. */
export interface SignatureMessage {
  readonly address: Buffer;
  readonly key_id: number;
  readonly signature: Buffer;
  readonly extension_data: Buffer;
}
/** `flow.entities.Transaction`, likewise: 64-bit numbers are texts. */
export interface TransactionMessage {
  readonly script: Buffer;
  readonly arguments: readonly Buffer[];
  readonly reference_block_id: Buffer;
  readonly gas_limit: string;
  readonly proposal_key: {
    readonly address: Buffer;
    readonly key_id: number;
    readonly sequence_number: string;
  } | null;
  readonly payer: Buffer;
  readonly authorizers: readonly Buffer[];
  readonly payload_signatures: readonly SignatureMessage[];
  readonly envelope_signatures: readonly SignatureMessage[];
}
