import type { ExplainDocument } from '../../documents/explanation.js';
import type { ApiErrorBody } from '../../view/ApiError.js';
import type { BackfillRangeStatus, StatusDocument } from '../../view/statusDocument.js';

export type Status = StatusDocument;
export type Endpoint = Status['endpoints'][number];
export type Reason = Status['reasons'][number];
export type Cell = Status['window']['cells'][number];
export type Minute = Status['lastHour'][number];
export type Worker = NonNullable<Status['cluster']>['workers'][number];
export type FilledRange = BackfillRangeStatus;
export type Explanation = ExplainDocument;
export type Refusal = ApiErrorBody;

/** What is wrong with the connection to the daemon. */
export interface Trouble {
  readonly since: Date;
  /** It answers, but refuses. */
  readonly isRefusal: boolean;
  /** It wants a bearer token, or another one. */
  readonly wantsToken: boolean;
  /** One sentence. */
  readonly message: string;
  /** By `performance.now()`. */
  readonly nextTryAtMs: number;
}

/** The block that became readable last, according to `/events`. */
export interface NewestBlock {
  readonly height: number;
  readonly collections: number;
  readonly transactions: number;
}

/** Everything that the page shows. */
export interface View {
  /** The latest status; `undefined` until the first one. */
  readonly status: Status | undefined;
  /** When it arrived, by `performance.now()`. */
  readonly receivedAtMs: number;
  /** `undefined` while the daemon answers. */
  readonly trouble: Trouble | undefined;
  readonly newest: NewestBlock | undefined;
}

/** What a readiness code means, and what to do. */
export interface CodeInfo {
  readonly severity: 'ordinary' | 'trouble';
  readonly cause: string;
  readonly fix: string;
}
