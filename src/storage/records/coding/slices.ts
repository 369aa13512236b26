/** The place of a collection or transaction in its block's body. */
export interface Slice {
  readonly offset: number;
  readonly length: number;
}

export const SLICE_BYTES = 8;

export function decodeSlice(payload: Buffer): Slice | undefined {
  if (payload.length !== SLICE_BYTES) return undefined;
  return { offset: payload.readUInt32BE(0), length: payload.readUInt32BE(4) };
}

/** What an account key leads to. */
export interface AccountValue extends Slice {
  /** The sum of its roles (`accountRoles`). */
  readonly roles: number;
}

const ACCOUNT_VALUE_BYTES = 9;
const ALL_ROLES = 7;

export function encodeAccountValue({ roles, offset, length }: AccountValue): Buffer {
  const payload = Buffer.allocUnsafe(ACCOUNT_VALUE_BYTES);
  payload[0] = roles;
  payload.writeUInt32BE(offset, 1);
  payload.writeUInt32BE(length, 5);
  return payload;
}

export function decodeAccountValue(payload: Buffer): AccountValue | undefined {
  const [roles] = payload;
  if (payload.length !== ACCOUNT_VALUE_BYTES || roles === undefined) return undefined;
  if (roles === 0 || roles > ALL_ROLES) return undefined;
  return { roles, offset: payload.readUInt32BE(1), length: payload.readUInt32BE(5) };
}
