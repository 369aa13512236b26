/** Expected: the bytes are not an export. The message completes "it is not an export: ". */
export class NotAnExportError extends Error {
  override readonly name = 'NotAnExportError';
}
