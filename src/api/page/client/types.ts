import type { ExplainDocument } from '../../documents/explanation.js';
import type { StatusDocument } from '../../view/statusDocument.js';

export type Status = StatusDocument;
export type Endpoint = Status['endpoints'][number];
export type Explanation = ExplainDocument;

/** What is wrong with the connection to the daemon. */
export interface Trouble {
  readonly since: Date;
  /** It answers, but refuses. */
  readonly isRefusal: boolean;
  /** It wants a bearer token, or another one. */
  readonly wantsToken: boolean;
  /** One sentence. */
  readonly message: string;
}

/** Everything that the page shows. */
export interface View {
  /** The latest status; `undefined` until the first one. */
  readonly status: Status | undefined;
  /** `undefined` while the daemon answers. */
  readonly trouble: Trouble | undefined;
}

/** Readiness codes: what each means, and what to do. */
export type Codes = Readonly<
  Record<string, { readonly severity: 'ordinary' | 'trouble'; readonly fix: string } | undefined>
>;
