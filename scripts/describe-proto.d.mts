/** One interface file; see describe-proto.mjs. */
export interface DescribedFile {
  readonly name: string;
  readonly needs: readonly string[];
  readonly services: readonly string[];
  readonly symbols: readonly string[];
  readonly encoded: string;
}

export function describeProto(): readonly DescribedFile[];
