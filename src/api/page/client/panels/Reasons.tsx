import type { VNode } from 'preact';
import type { Codes } from '../daemon/codes.js';
import { age, many, timeOf } from '../format.js';
import { sentence } from '../sentence.js';
import type { Status, Trouble } from '../types.js';

interface NoAnswerProps {
  readonly trouble: Trouble;
  readonly nowMs: number;
  readonly hasStatus: boolean;
}

/** The daemon does not answer: since when, and when the page tries again. */
export function NoAnswer({ trouble, nowMs, hasStatus }: NoAnswerProps): VNode {
  const { since, isRefusal, message, nextTryAtMs, wantsToken } = trouble;
  if (wantsToken) return <TokenWanted message={message} hasStatus={hasStatus} />;
  const next = Math.max(0, Math.ceil((nextTryAtMs - nowMs) / 1_000));
  return (
    <section class="notice bad" aria-label="No answer">
      <p role="alert">
        <strong>
          The daemon has not {isRefusal ? 'given its status' : 'answered'} since {timeOf(since)}.
        </strong>{' '}
        {message}
      </p>
      <p>
        For {age((Date.now() - since.getTime()) / 1_000)}.{' '}
        {next > 0 ? `The page asks again in ${next} s` : 'The page is asking'}, and goes on by itself once
        there is an answer. {hasStatus ? 'Below is the last known status.' : ''}
      </p>
    </section>
  );
}

/** The daemon works, but wants a token. */
function TokenWanted({ message, hasStatus }: Pick<NoAnswerProps, 'hasStatus'> & { message: string }): VNode {
  return (
    <section class="notice busy" aria-label="Token wanted">
      <p role="alert">
        <strong>This daemon shows its status only to callers with a bearer token.</strong> {message}{' '}
        {hasStatus ? 'Below is the last known status.' : ''}
      </p>
    </section>
  );
}

interface ReasonsProps {
  readonly status: Status;
  readonly codes: Codes;
  readonly elapsed: number;
}

/** Why the daemon is not ready: each reason with its age, and what to do. */
export function Reasons({ status: { ready, reasons }, codes, elapsed }: ReasonsProps): VNode | null {
  if (ready || reasons.length === 0) return null;
  const troubles = reasons.filter(({ code }) => codes[code]?.severity !== 'ordinary');
  const ordinary = reasons.filter((reason) => !troubles.includes(reason));
  return (
    <section class={`notice ${troubles.length > 0 ? 'bad' : 'busy'}`} aria-label="Why it is not ready">
      <ul class="reasons">
        {[...troubles, ...ordinary].map(({ code, message, sinceSeconds }) => (
          <li key={code}>
            <p>
              <code class="tag">{code}</code> <Message text={sentence(message)} />{' '}
              <span class="nowrap">For {age(sinceSeconds + elapsed)}.</span>
            </p>
            <p class="fix">{withCode(codes[code]?.fix ?? '')}</p>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Outputs of the daemon that take no lines of its log. Nothing else is wrong. */
export function LogTroubles({
  status: { log },
  elapsed,
}: Pick<ReasonsProps, 'status' | 'elapsed'>): VNode | null {
  if (log.length === 0) return null;
  return (
    <section class="notice busy" aria-label="The log">
      <ul class="reasons">
        {log.map(({ output, reason, lostLines, ageSeconds }) => (
          <li key={output}>
            <p>
              <strong>The log cannot be written to {output}:</strong> {sentence(reason)}{' '}
              {lostLines === 0 ? 'Nothing is lost yet.' : `${many(lostLines, 'line')} lost.`}{' '}
              <span class="nowrap">For {age(ageSeconds + elapsed)}.</span>
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** A message: in bold what holds the daemon up, then, after the first colon, the details. */
function Message({ text }: { readonly text: string }): VNode {
  const [what = '', ...why] = text.split(': ');
  return (
    <>
      <strong>{why.length === 0 ? what : `${what}:`}</strong> {why.join(': ')}
    </>
  );
}

/** Text with `code` between backticks. */
function withCode(text: string): readonly (VNode | string)[] {
  return text.split('`').map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part));
}
